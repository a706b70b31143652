// The run page: follows the run over one socket and paints it onto what the server rendered.

import { follow } from "../streaming/live.js";
import { Announcer } from "./announcer.js";
import { ConnectionPill } from "./connection.js";
import { readJson, setHidden, slot } from "./dom.js";
import { Painter } from "./painter.js";
import { Follower } from "./scrolling.js";
import { StopControl } from "./stop.js";
import { serverNow, setServerTime, showTimes } from "./times.js";

const root = document.getElementById("run");
const words = readJson("words");
const people = readJson("people");
const firstView = readJson("view");

if (matchMedia("(max-width: 60rem)").matches) document.getElementById("timeline").open = false;

const announcer = new Announcer(document.getElementById("announce"), words);
const follower = new Follower({
  end: document.getElementById("output"),
  jump: document.getElementById("jump"),
  isLive: () => painter.view?.terminal_at === null,
});
const painter = new Painter(root, {
  words,
  onPainted(view) {
    stop.show(view);
    announcer.show(view);
    follower.painted();
    fetchExtras(view);
  },
});
const stop = new StopControl({
  form: document.getElementById("stop-form"),
  line: document.getElementById("stop-line"),
  alert: document.getElementById("alert"),
  stateUrl: root.dataset.stateUrl,
  words,
  people,
  onAsked() {
    // On the click the text stops moving at once; events are still applied behind it, and the socket stays open.
    painter.isStopAsked = true;
    painter.paint(painter.view);
  },
});

let live = null;
const pill = new ConnectionPill(document.getElementById("connection"), { onRetry: () => live?.retry() });

painter.paint(firstView);

live = follow({
  runId: root.dataset.run,
  url: new URL(`/ws/v1/runs/${root.dataset.run}/?tail=1&role=${root.dataset.role}`, location.href).href.replace(/^http/, "ws"),
  cursor: root.dataset.cursor,
  view: firstView,
  role: root.dataset.role,
  onView: (view) => painter.show(view),
  onConnection(state, detail = {}) {
    if (detail.server_time) setServerTime(detail.server_time);
    pill.show(state, detail);
  },
});

// Answer forms and previews are made by the server; they are fetched when the view says that there is one more.
let extrasFor = extrasOf(firstView);
let isFetching = false;

function extrasOf(view) {
  const open = view.questions.filter((q) => q.state === "open").map((q) => q.question_id);
  return JSON.stringify([open, view.artifacts.map((a) => a.artifact_id)]);
}

async function fetchExtras(view) {
  const wanted = extrasOf(view);
  if (wanted === extrasFor || isFetching) return;
  isFetching = true;
  try {
    const answer = await fetch(root.dataset.extrasUrl, { redirect: "error" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    place("answers", page, "[data-answer]", "answer");
    place("artifacts", page, "[data-artifact]", "artifact");
    extrasFor = wanted;
    follower.painted();
  } catch {
    setTimeout(() => painter.view && fetchExtras(painter.view), 5000);
  } finally {
    isFetching = false;
    if (painter.view && extrasOf(painter.view) !== wanted) fetchExtras(painter.view);
  }
}

// Put new ones in and take closed ones out; one that is there stays, because somebody may be typing in it.
function place(id, page, selector, key) {
  const holder = document.getElementById(id);
  const fresh = new Map([...page.querySelectorAll(selector)].map((e) => [e.dataset[key], e]));
  for (const old of [...holder.children]) if (!fresh.has(old.dataset[key])) old.remove();
  const there = new Set([...holder.children].map((e) => e.dataset[key]));
  for (const [name, made] of fresh) if (!there.has(name)) holder.append(document.adoptNode(made));
  showTimes(holder);
}

const deadline = document.getElementById("deadline");
if (deadline) {
  const from = Date.parse(deadline.dataset.from);
  const to = Date.parse(deadline.querySelector("time").dateTime);
  const bar = deadline.querySelector("progress");
  const tick = () => { bar.value = Math.min(1, Math.max(0, (serverNow() - from) / (to - from))); };
  tick();
  setInterval(tick, 5000);
}
