// The run page: follows the run over one socket and paints it onto what the server rendered.

import { follow } from "../streaming/live.js";
import { Announcer } from "./announcer.js";
import { ConnectionPill } from "./connection.js";
import { readJson } from "./dom.js";
import { Extras } from "./extras.js";
import { Painter } from "./painter.js";
import { Follower } from "./scrolling.js";
import { StopControl } from "./stop.js";
import { serverNow, setServerTime } from "./times.js";

const root = document.getElementById("run");
const words = readJson("words");
const people = readJson("people");
const firstView = readJson("view");

if (matchMedia("(max-width: 60rem)").matches) document.getElementById("timeline").open = false;

const announcer = new Announcer(document.getElementById("announce"), words, document.getElementById("announce-how"));
const follower = new Follower({
  end: document.getElementById("output"),
  jump: document.getElementById("jump"),
  isLive: () => painter.view?.terminal_at === null,
});
const extras = new Extras({ url: root.dataset.extrasUrl, firstView, onPlaced: () => follower.painted() });
let live = null;
const pill = new ConnectionPill(document.getElementById("connection"), {
  onRetry: () => live?.retry(),
  announce: (text) => announcer.say(text),
});
const painter = new Painter(root, {
  words,
  onPainted(view) {
    stop.show(view);
    pill.end(view.terminal_at !== null);
    announcer.show(view);
    follower.painted();
    extras.show(view);
  },
});
const stop = new StopControl({
  form: document.getElementById("stop-form"),
  line: document.getElementById("stop-line"),
  alert: document.getElementById("alert"),
  stateUrl: root.dataset.stateUrl,
  words,
  people,
  onAsked(isAsked) {
    // On the click the text stops moving at once; events are still applied behind it, and the socket stays open.
    painter.isStopAsked = isAsked;
    painter.paint(painter.view);
    live?.retry(); // the proof comes sooner over a connection than over the next try of one
  },
  onBehind() {
    if (!pill.isGood) return; // it is known to be cut, or polled, and comes back by itself
    live.close();
    live = start(painter.view);
  },
});

painter.paint(firstView);

function start(view) {
  return follow({
    runId: root.dataset.run,
    url: new URL(`/ws/v1/runs/${root.dataset.run}/?tail=1&role=${root.dataset.role}`, location.href).href.replace(/^http/, "ws"),
    view,
    onView: (next) => painter.show(next),
    onConnection(state, detail = {}) {
      if (detail.server_time) setServerTime(detail.server_time);
      pill.show(state, detail);
    },
  });
}

live = start(firstView);

const deadline = document.getElementById("deadline");
if (deadline) {
  const from = Date.parse(deadline.dataset.from);
  const to = Date.parse(deadline.querySelector("time").dateTime);
  const bar = deadline.querySelector("progress");
  const tick = () => { bar.value = Math.min(1, Math.max(0, (serverNow() - from) / (to - from))); };
  tick();
  setInterval(tick, 5000);
}
