// What a browser can find out about the way to the server: does it answer, do sockets open, is anything held back?

import { setIcon, setText, slot } from "./dom.js";
import { fill, gettext } from "./words.js";

const PATIENCE_MS = 15_000;
const BEATS = 4;
const EVERY_S = 0.5;

const list = document.getElementById("checks");
const again = document.getElementById("again");

const ok = (text) => ({ tone: "green", sign: "check", text });
const bad = (text) => ({ tone: "red", sign: "cross", text });

function show(name, { tone, sign, text }) {
  const line = list.querySelector(`[data-check="${name}"]`);
  setIcon(line, sign, tone);
  setText(slot(line, "text"), text);
}

async function server() {
  const began = performance.now();
  const answer = await fetch("/healthz", { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  const body = await answer.json();
  if (body.status !== "ok") throw new Error(`status ${answer.status}`);
  return ok(fill(gettext("In %(ms)s ms."), { ms: Math.round(performance.now() - began) }));
}

function socket() {
  return new Promise((resolve) => {
    const url = new URL(list.dataset.feed, location.href).href.replace(/^http/, "ws");
    const opened = new WebSocket(url, ["app.v1"]);
    const end = (verdict) => { clearTimeout(timer); opened.onclose = null; opened.close(); resolve(verdict); };
    const lost = gettext("It does not open: something between you and the server lets no WebSocket through. Pages refresh every 5 s instead.");
    const timer = setTimeout(() => end(bad(lost)), PATIENCE_MS);
    opened.onmessage = (event) => {
      const frame = JSON.parse(event.data);
      if (frame.type === "ready") end(ok(gettext("It opens, and pages are live.")));
      else if (frame.code === 4501) end(bad(gettext("It opens, but you are signed out.")));
      else end(bad(fill(gettext("It opens and is closed again: %(reason)s."), { reason: frame.reason ?? frame.type })));
    };
    opened.onclose = () => end(bad(lost));
  });
}

async function stream() {
  const url = `${list.dataset.stream}?beats=${BEATS}&every=${EVERY_S}`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store", redirect: "error" });
  if (!answer.ok) return bad(fill(gettext("The test stream is answered %(status)s."), { status: answer.status }));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const came = [];
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    for (const _event of read.value.matchAll(/^event: beat$/gm)) came.push(performance.now());
  }
  if (came.length !== BEATS) return bad(fill(gettext("%(n)s of %(all)s test events came."), { n: came.length, all: BEATS }));
  const isHeld = came.at(-1) - came[0] < (1000 * EVERY_S * (BEATS - 1)) / 2;
  return isHeld
    ? bad(gettext("Events that were sent one by one came together: something on the way buffers. Programs that follow runs see them late."))
    : ok(gettext("Events come one by one, as they are sent."));
}

async function check() {
  again.setAttribute("aria-busy", "true");
  for (const [name, ask] of Object.entries({ server, socket, stream })) {
    show(name, { tone: "grey", sign: "dot", text: gettext("Looking…") });
    try {
      show(name, await ask());
    } catch (error) {
      show(name, bad(fill(gettext("No answer (%(why)s)."), { why: error.message })));
    }
  }
  again.removeAttribute("aria-busy");
}

again.hidden = false;
again.addEventListener("click", () => again.hasAttribute("aria-busy") || check());
check();
