// The run list, live: rows change in place; new rows wait behind a button, so that nothing shifts under the cursor.
//
// The socket says which runs changed, the server renders their rows. Without a socket the rows are asked each 5 s.

import { Choice } from "./choosing.js";
import { ConnectionPill } from "./connection.js";
import { setHidden, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { showTimes } from "./times.js";
import { fill, ngettext } from "./words.js";

const POLL_MS = 5000;
const GATHER_MS = 250; // changes that come together are asked for together
const MOST_IDS = 100; // in one question

const changed = new Set();
const unseen = new Set();
let gathering = null;
let state = "";

const list = () => document.getElementById("runs");
const shownRows = () => [...document.querySelectorAll("#run-rows tr")];
const isFirstPage = () => list().dataset.page === "1";

class SignedOut extends Error {}

const announcer = document.getElementById("announce");
const pill = new ConnectionPill(document.getElementById("feed-pill"), {
  onRetry: () => feed.retry(),
  announce: (text) => setText(announcer, text),
});
const choice = new Choice();
const feed = new Feed({
  url: new URL(list().dataset.feed, location.href).href.replace(/^http/, "ws"),
  onReady: look, // what changed before the socket was open
  onChanged(id, version) {
    const row = document.getElementById(id);
    if (row && Number(row.dataset.version) >= Number(version)) return;
    changed.add(id);
    gathering ??= setTimeout(fetchChanged, GATHER_MS);
  },
  onConnection: connection,
});

function connection(now, detail) {
  state = now;
  pill.show(now, detail);
}

async function fetchChanged() {
  gathering = null;
  const ids = [...changed].slice(0, MOST_IDS);
  for (const id of ids) changed.delete(id);
  try {
    update(await fetchRows(ids));
  } catch (error) {
    if (error instanceof SignedOut) return;
    for (const id of ids) changed.add(id);
    gathering ??= setTimeout(fetchChanged, POLL_MS);
    return;
  }
  if (changed.size) gathering ??= setTimeout(fetchChanged, GATHER_MS);
}

// Rows of these runs, or without ids those of the first page.
async function fetchRows(ids = null) {
  const url = new URL(list().dataset.rows, location.href);
  url.searchParams.set("show", list().dataset.show);
  if (ids) url.searchParams.set("ids", ids.join(","));
  const answer = await fetch(url, { redirect: "manual" });
  if (answer.type === "opaqueredirect") {
    connection("signed_out"); // a redirect to the sign-in page
    throw new SignedOut();
  }
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const holder = document.createElement("template");
  holder.innerHTML = `<table><tbody>${await answer.text()}</tbody></table>`;
  return [...holder.content.querySelectorAll("tr")];
}

function update(rows) {
  for (const fresh of rows) {
    const row = document.getElementById(fresh.id);
    if (row) put(fresh, row);
    else if (fresh.dataset.matches === "1" && isFirstPage()) unseen.add(fresh.id);
  }
  showTimes(list());
  showNew();
  choice.show();
}

// One row in the place of its older self, with what the reader has done to it: its focus, its tick, its result.
function put(fresh, row) {
  if (Number(row.dataset.version) > Number(fresh.dataset.version)) return; // an answer that took its time
  if (row.dataset.version === fresh.dataset.version && row.dataset.matches === fresh.dataset.matches) return;
  fresh.classList.add("row-changed");
  choice.keep(row, fresh);
  const result = row.querySelector("[data-result]");
  if (result) fresh.append(result);
  const focused = row.contains(document.activeElement) ? document.activeElement.localName : null;
  row.replaceWith(fresh);
  if (focused) (fresh.querySelector(focused) ?? fresh.querySelector("a"))?.focus({ preventScroll: true });
}

function showNew() {
  const bar = document.getElementById("new-rows");
  if (!bar) return;
  setHidden(bar, unseen.size === 0);
  setText(bar.firstElementChild, fill(ngettext("%(n)s new run, show", "%(n)s new runs, show", unseen.size), { n: unseen.size }));
}

// Look at everything that is shown, and at what is new.
async function look() {
  try {
    const ids = shownRows().map((row) => row.id).slice(0, MOST_IDS);
    if (ids.length) update(await fetchRows(ids));
    if (isFirstPage()) update(await fetchRows());
  } catch {
    // The next look, or the socket, brings it.
  }
}

const isPolled = () => !["live", "offline", "signed_out", "forbidden"].includes(state);
setInterval(() => { if (isPolled() && !document.hidden) look(); }, POLL_MS);
document.addEventListener("htmx:afterSwap", () => { unseen.clear(); showNew(); choice.show(); });
feed.open();
