// The run list, live: rows change in place; new rows wait behind a button, so that nothing shifts under the cursor.
//
// The socket says which runs changed, the server renders their rows. Without a socket the list is asked each 5 s.

import { setHidden, setIcon, setText } from "./dom.js";
import { showTimes } from "./times.js";
import { fill, gettext, ngettext } from "./words.js";

const POLL_MS = 5000;
const GATHER_MS = 250; // changes that come together are asked for together
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 20000;

const changed = new Set();
const unseen = new Set();
let socket = null;
let retryMs = FIRST_RETRY_MS;
let gathering = null;
let isLive = false;
let isOver = false;

const list = () => document.getElementById("runs");
const body = () => document.getElementById("run-rows");

function open() {
  if (isOver) return;
  const url = new URL(list().dataset.feed, location.href).href.replace(/^http/, "ws");
  socket = new WebSocket(url, ["app.v1"]);
  socket.onmessage = (event) => {
    retryMs = FIRST_RETRY_MS;
    setLive(true);
    for (const frame of [JSON.parse(event.data)].flat()) take(frame);
  };
  socket.onclose = (event) => {
    setLive(false);
    if (event.code >= 4500 && event.code < 5000) { isOver = true; showPill("red", gettext("Signed out.")); return; }
    setTimeout(open, retryMs / 2 + Math.random() * (retryMs / 2));
    retryMs = Math.min(LAST_RETRY_MS, retryMs * 2);
  };
}

function take(frame) {
  if (frame.type === "ready") return pollNow(); // what changed before the socket was open
  const id = frame.run ?? frame.run_id;
  if (frame.type !== "run.changed" || typeof id !== "string") return;
  const row = document.getElementById(id);
  if (row && Number(row.dataset.version) >= Number(frame.version)) return;
  changed.add(id);
  gathering ??= setTimeout(fetchChanged, GATHER_MS);
}

async function fetchChanged() {
  gathering = null;
  const ids = [...changed].slice(0, 100);
  for (const id of ids) changed.delete(id);
  const url = `${list().dataset.rows}?show=${encodeURIComponent(list().dataset.show)}&ids=${ids.join(",")}`;
  try {
    update(await fetchRows(url));
  } catch {
    for (const id of ids) changed.add(id);
    gathering ??= setTimeout(fetchChanged, POLL_MS);
    return;
  }
  if (changed.size) gathering ??= setTimeout(fetchChanged, GATHER_MS);
}

async function fetchRows(url) {
  const answer = await fetch(url, { redirect: "error" });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const holder = document.createElement("template");
  holder.innerHTML = `<table><tbody>${await answer.text()}</tbody></table>`;
  return [...holder.content.querySelectorAll("tr")];
}

function update(rows) {
  for (const fresh of rows) {
    const row = document.getElementById(fresh.id);
    if (row?.dataset.version === fresh.dataset.version) continue;
    if (row) {
      fresh.classList.add("row-changed");
      const hadFocus = row.contains(document.activeElement);
      row.replaceWith(fresh);
      if (hadFocus) fresh.querySelector("a")?.focus({ preventScroll: true });
    } else if (fresh.dataset.matches === "1" && list().dataset.page === "1") unseen.add(fresh.id);
  }
  showTimes(list());
  showNew();
}

function showNew() {
  const bar = document.getElementById("new-rows");
  if (!bar) return;
  setHidden(bar, unseen.size === 0);
  setText(bar.firstElementChild, fill(ngettext("%(n)s new run, show", "%(n)s new runs, show", unseen.size), { n: unseen.size }));
}

async function pollNow() {
  if (list().dataset.page !== "1") return;
  try {
    update(await fetchRows(`${list().dataset.rows}?show=${encodeURIComponent(list().dataset.show)}`));
  } catch {
    // The next poll, or the socket, brings it.
  }
}

function setLive(now) {
  if (isLive === now && now) return;
  isLive = now;
  if (now) showPill("green", gettext("Live"));
  else showPill("amber", gettext("No live connection; refreshing every 5 s."));
}

function showPill(tone, text) {
  const pill = document.getElementById("feed-pill");
  setIcon(pill, "dot", tone);
  setText(pill.querySelector("span"), text);
  setHidden(pill, false);
}

setInterval(() => { if (!isLive && !isOver && !document.hidden) pollNow(); }, POLL_MS);
addEventListener("online", () => { if (!isLive) { retryMs = FIRST_RETRY_MS; socket?.close(); } });
document.addEventListener("htmx:afterSwap", () => { unseen.clear(); showNew(); });
open();
