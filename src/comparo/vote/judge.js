"use strict";
// A judge's page: keys and buttons, one vote at a time; the page moves on when the server has stored the vote.
const base = document.body.dataset.base;
const DOUBLE = 500; // milliseconds: the double-click time of most systems
const AGAIN = 2000; // milliseconds between two attempts when the server does not answer
const turn = document.getElementById("turn");
const trouble = document.getElementById("trouble");
const skipping = document.getElementById("skipping");
let busy = false, unsent = null, plain = null, context = null, order = [];
let shown = 0, hidden = 0, away = 0;

const state = () => turn.querySelector(".state").dataset;
const ready = () => !busy && performance.now() - shown >= DOUBLE;

function begin() {
  shown = performance.now();
  hidden = 0;
  away = document.hidden ? shown : 0;
  plain = null;
  order = [];
  const details = turn.querySelector(".context");
  if (details) {
    details.classList.toggle("new", context !== null && context !== details.dataset.context);
    context = details.dataset.context;
  }
  setTimeout(() => document.body.classList.add("ready"), DOUBLE);
}

function seconds() {
  const now = performance.now();
  return (now - shown - hidden - (away ? now - away : 0)) / 1000;
}

function complain(text, retry) {
  trouble.querySelector("span").textContent = text;
  document.getElementById("retry").hidden = !retry;
  trouble.hidden = !text;
}

async function send(path, message) {
  if (busy) return;
  busy = true;
  unsent = [path, message];
  document.body.classList.remove("ready");
  document.body.classList.add("busy");
  for (;;) {
    let answer, said;
    try {
      answer = await fetch(`${base}/${path}`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(message),
      });
      said = await answer.json();
    } catch {
      complain("The server does not answer: this was NOT saved yet. Trying again …", false);
      await new Promise((done) => setTimeout(done, AGAIN));
      continue;
    }
    if (answer.ok) {
      const { id, dataset: { choice } } = document.activeElement;
      turn.innerHTML = said.html; // made by the server, which escapes every text
      const same = choice ? turn.querySelector(`[data-choice="${choice}"]`) : id && document.getElementById(id);
      if (same) same.focus({ preventScroll: true });
      unsent = null;
      complain("", false);
      scrollTo(0, 0);
      begin();
    } else {
      complain(said.error, true);
      setTimeout(() => document.body.classList.add("ready"), DOUBLE);
    }
    break;
  }
  busy = false;
  document.body.classList.remove("busy");
}

function because() {
  const ticked = [...turn.querySelectorAll(".why :checked")].map((box) => box.value);
  return [...ticked, turn.querySelector("#because")?.value.trim()].filter(Boolean).join("; ");
}

function vote(choice) {
  const { ballot, turn: number } = state();
  if (ready() && ballot) send("vote", { ballot: Number(ballot), turn: Number(number), choice, reason: because(), seconds: seconds() });
}

const labels = () => [...turn.querySelectorAll("[data-label]")].map((button) => button.dataset.label);

function place(label) {
  if (!ready() || !label) return;
  order = order.includes(label) ? order.filter((each) => each !== label) : [...order, label];
  const left = labels().filter((each) => !order.includes(each));
  for (const button of turn.querySelectorAll("[data-label]")) button.setAttribute("aria-pressed", order.includes(button.dataset.label));
  document.getElementById("order").textContent = [...order, ...(left.length > 1 ? ["…"] : left)].join(" > ");
  if (left.length < 2) vote([...order, ...left].join(">"));
}

function skip(reason) {
  const { ballot, turn: number } = state();
  skipping.close();
  if (ballot) send("skip", { ballot: Number(ballot), turn: Number(number), reason, seconds: seconds() });
}

function undo() {
  const { last } = state();
  if (order.length) place(order.at(-1));
  else if (ready() && last) send("undo", { vote: Number(last) });
}

function ask() {
  if (!ready() || !state().ballot) return;
  document.getElementById("reason").value = "";
  skipping.showModal();
}

async function differences() {
  const sides = [...turn.querySelectorAll(".side")], button = document.getElementById("differences");
  if (!button || busy) return;
  if (plain) {
    sides.forEach((side, k) => { side.innerHTML = plain[k]; });
    plain = null;
    button.setAttribute("aria-pressed", "false");
    return;
  }
  const ballot = state().ballot;
  try {
    const answer = await fetch(`${base}/differences?ballot=${ballot}`), said = await answer.json();
    if (state().ballot !== ballot) return;
    if (!answer.ok) return complain(said.error, false);
    plain = sides.map((side) => side.innerHTML);
    sides.forEach((side, k) => { side.innerHTML = said.sides[k]; });
    button.setAttribute("aria-pressed", "true");
  } catch {
    complain("The server does not answer.", false);
  }
}

turn.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.choice) vote(button.dataset.choice);
  else if (button.dataset.label && event.detail < 2) place(button.dataset.label); // not the second half of a double click
  else if (button.id === "undo") undo();
  else if (button.id === "skip") ask();
  else if (button.id === "differences") differences();
});
skipping.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button && button.dataset.reason) skip(button.dataset.reason);
  else if (button && button.id === "cancel") skipping.close();
});
skipping.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const reason = document.getElementById("reason");
  if (reason.value.trim()) skip(reason.value.trim());
  else reason.focus();
});
document.getElementById("retry").addEventListener("click", () => { if (unsent) send(...unsent); });
document.addEventListener("keydown", (event) => {
  if (event.target.id === "because" && event.key === "Enter") event.target.blur(); // so that keys vote again
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.target.closest("input:not([type=checkbox])")) return;
  if (skipping.open) {
    const button = skipping.querySelectorAll("[data-reason]")[Number(event.key) - 1];
    if (button) { event.preventDefault(); button.click(); }
    return;
  }
  const key = event.key.toLowerCase();
  const own = labels(), label = own[(own.length ? "1234" : "").indexOf(key)] ?? own.find((each) => each.toLowerCase() === key);
  const box = own.length ? null : turn.querySelectorAll(".why [type=checkbox]")[Number(key) - 1];
  const pair = { a: () => vote("A"), b: () => vote("B"), "=": () => vote("="), d: differences };
  const act = box ? () => box.click() : label ? () => place(label) : { ...(own.length ? {} : pair), u: undo, s: ask }[key];
  if (act) { event.preventDefault(); act(); }
});
document.addEventListener("visibilitychange", () => {
  const now = performance.now();
  if (document.hidden) away = now;
  else if (away) { hidden += now - away; away = 0; }
});
begin();
