"use strict";
// The invitation page: sends a name and opens the judge's own page.
const trouble = document.getElementById("trouble");
let sent = false;
document.getElementById("join").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (sent) return;
  sent = true;
  trouble.hidden = true;
  try {
    const answer = await fetch(`${document.body.dataset.base}/name`, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name: document.getElementById("name").value }),
    });
    const said = await answer.json();
    if (answer.ok) return location.replace(said.path);
    trouble.textContent = said.error;
  } catch {
    trouble.textContent = "The server does not answer. Try again.";
  }
  trouble.hidden = false;
  sent = false;
});
