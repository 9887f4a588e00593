"use strict";
// The organiser's page: updates the figures every few seconds, while the page is visible.
const EVERY = 3000; // milliseconds
const { base, origin } = document.body.dataset;
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");

async function look() {
  if (!document.hidden && !live.querySelector("input:focus")) {
    try {
      const answer = await fetch(`${base}/live`), said = await answer.json();
      if (!answer.ok) throw new Error();
      const opened = [...live.querySelectorAll("details[open]")].map((details) => details.id);
      live.innerHTML = said.html; // made by the server, which escapes every text
      for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
      trouble.hidden = true;
    } catch {
      trouble.hidden = false;
    }
  }
  setTimeout(look, EVERY);
}

live.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  const isHere = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  const link = new URL(button.dataset.link, isHere ? origin : location.origin).href;
  try {
    await navigator.clipboard.writeText(link);
    button.textContent = "Copied";
  } catch { // browsers allow copying only over https
    const field = document.createElement("input");
    field.readOnly = true;
    field.value = link;
    button.replaceWith(field);
    field.select();
  }
});
look();
