// Times in the reader's zone. `<time datetime>` holds UTC; data-style says how it is shown: time, age, since,
// or left (a countdown).

import { age, countdown, full, moment, writeSeconds } from "./words.js";

// How far the server's clock is ahead of ours, in ms; the run page sets it from what the server says.
let ahead = 0;
export const serverNow = () => Date.now() + ahead;
export function setServerTime(text) {
  const at = Date.parse(text ?? "");
  if (!Number.isNaN(at)) ahead = at - Date.now();
}

export function showTimes(root = document) {
  const now = serverNow();
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const style = element.dataset.style;
    const text = style === "age" ? age(at, now)
      : style === "left" ? countdown((at.getTime() - now) / 1000)
      : style === "since" ? writeSeconds(Math.max(0, (now - at.getTime()) / 1000))
      : moment(at);
    if (element.textContent !== text) element.textContent = text;
    if (!element.title) element.title = full(at);
  }
}

export function keepTimes() {
  showTimes();
  // Ages and running steps tick; nothing ticks in a tab that nobody sees.
  setInterval(() => document.hidden || showTimes(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || showTimes());
  document.addEventListener("htmx:afterSettle", (event) => showTimes(event.target));
}
