// The page of a shell: the connection, the terminal, and what the page says around them.

import { ConnectionPill } from "./connection.js";
import { readJson, setHidden, setIcon, setText, slot } from "./dom.js";
import { Grace } from "./shell_grace.js";
import { StopControl } from "./stop.js";
import { setServerTime } from "./times.js";
import { exitText, lostInputText, pilotText, reattachedText, skippedText, watchersChangedText, watchingText } from "./shell_words.js";
import { fill, gettext, ngettext } from "./words.js";

const ENDED = ["completed", "failed", "cancelled", "needs_reconciliation"];
const root = document.getElementById("shell");
const words = readJson("words");
const state = readJson("state");
const byId = (id) => document.getElementById(id);
const announce = (text) => setText(byId("announce"), text);
let view = readJson("view");
let link = null, terminal = null, keys = null;
let watchers = null; // the names of others who watch
let inControl = null, whose = {}; // the last `pilot` frame; of the last `run` frame, who opened it and who has taken it

const pill = new ConnectionPill(byId("connection"), { onRetry: () => link?.retry(), announce });
const stop = new StopControl({
  form: byId("stop-form"), line: byId("stop-line"), alert: byId("alert"), stateUrl: root.dataset.stateUrl, words,
  people: readJson("people"), onAsked() {}, onBehind: () => link?.retry(),
});
// In the terminal every key is the program's.
byId("terminal")?.addEventListener("keydown", (event) => {
  if (event.key === "." && (event.ctrlKey || event.metaKey)) event.stopPropagation();
});
const grace = new Grace(byId("grace"), { form: byId("keep-form"), notify: byId("notify"), announce, title: document.title });

stop.show(view);
if (root.dataset.over === undefined) start().catch(failed);
else showEnd(state.exit);

async function start() {
  const { ShellTerminal } = await import("./shell_terminal.js");
  const { ShellLink } = await import("./shell_link.js");
  const { PasteGuard } = await import("./shell_paste.js");
  const { KeyBar } = await import("./shell_keys.js");
  const { bindTools } = await import("./shell_tools.js");
  byId("last-screen").remove();
  terminal = new ShellTerminal(byId("terminal"), {
    rows: Number(root.dataset.rows), cols: Number(root.dataset.cols), nonce: byId("shell-script").nonce,
    isPilot: () => link?.isPilot ?? false,
    onInput: typed,
    onPainted: (offset) => link.painted(offset),
    onSize: (rows, cols) => link.resize(rows, cols),
  });
  const url = new URL(root.dataset.socket, location.href).href.replace(/^http/, "ws");
  link = new ShellLink({ url, role: root.dataset.role, had: takeKept(), on: handlers() });
  if (byId("keys")) {
    keys = new KeyBar(byId("keys"), {
      send: (text) => terminal.term.input(text), // as if it had been typed
      isApplicationMode: () => terminal.term.modes.applicationCursorKeysMode,
      onControl: () => terminal.term.focus(),
    });
  }
  new PasteGuard(byId("paste"), {
    terminal,
    say(lines) {
      setText(slot(byId("paste"), "title"), fill(ngettext("Paste %(n)s line?", "Paste %(n)s lines?", lines.length), { n: lines.length }));
      setText(slot(byId("paste"), "lines"), lines.slice(0, 12).join("\n") + (lines.length > 12 ? "\n…" : ""));
    },
  });
  bindTools(terminal, root);
  byId("take")?.addEventListener("click", () => { link.takeControl(); terminal.term.focus(); });
  byId("release")?.addEventListener("click", () => link.releaseControl());
  byId("hand-back")?.addEventListener("click", () => link.handBack());
  addEventListener("online", () => link.retry());
  addEventListener("offline", () => link.goOffline());
  document.addEventListener("visibilitychange", () => document.hidden || link.retry());
  // Only while the page goes: a tab that is made a copy of this one must not come as this one.
  addEventListener("pagehide", () => link.had !== null && sessionStorage.setItem(keptName(), String(link.had)));
  addEventListener("pageshow", (event) => event.persisted && takeKept());
  globalThis.outliveShell = { link, terminal }; // for the console, and for tests that look at the buffer
  link.open();
  terminal.term.focus();
}

function failed(error) {
  // Without the picture the page is what it is without JavaScript: the last screen, and Stop.
  console.warn(error);
  say(gettext("The terminal could not be loaded; this is its screen as text. Reload the page to try again."), "amber");
}

const keptName = () => `had-${root.dataset.shell}`;

function takeKept() {
  const kept = sessionStorage.getItem(keptName());
  sessionStorage.removeItem(keptName());
  return kept === null ? null : Number(kept);
}

function typed(bytes) {
  const isEnter = bytes.length === 1 && bytes[0] === 13;
  if (!link.isLive) {
    link.retry();
    if (isEnter && !link.waiting) return; // it only asked for the connection
  }
  link.type(keys ? keys.apply(bytes) : bytes);
}

function handlers() {
  return {
    state: (name, detail = {}) => pill.show(name, detail),
    ready(frame, { awaySeconds, lost }) {
      setServerTime(frame.at);
      terminal.replayUntil(frame.end);
      terminal.setSize(frame);
      if (awaySeconds !== null) say(reattachedText(frame.at, awaySeconds, frame.end - (frame.from ?? frame.end)));
      if (lost) say(lostInputText(lost), "amber");
    },
    screen(frame, bytes) {
      terminal.show(frame, bytes);
      if (frame.exact) return;
      say(gettext("Part of this screen may be wrong; a program that draws it anew will mend it."), "amber");
      terminal.nudge();
    },
    output: (offset, bytes) => terminal.write(offset, bytes),
    skipped: (frame) => say(skippedText(frame.to - frame.from), "amber"),
    pilot(frame) {
      inControl = frame;
      paintPilot();
      terminal.refit();
    },
    watching: paintWatching,
    size: (frame) => terminal.setSize(frame),
    run(frame) {
      setServerTime(frame.at);
      whose = frame;
      paintPilot();
      const isEnded = ENDED.includes(frame.status);
      const cancel = frame.cancel_reason ? { requested_at: frame.at, by: null, ...view.cancel, reason: frame.cancel_reason } : null;
      view = { ...view, status: frame.status, cancel, terminal_at: isEnded ? view.terminal_at ?? frame.at : null };
      for (const badge of document.querySelectorAll('#shell [data-slot="badge"] .badge')) paintBadge(badge, frame.status);
      stop.show(view);
      pill.end(isEnded);
      grace.show(isEnded ? null : frame.grace_expires_at);
      if (isEnded) setHidden(byId("watching"), true);
    },
    exit: (frame) => showEnd(frame),
    shut: () => view.terminal_at || link.exit || say(gettext("Nothing that is typed goes in any more.")),
  };
}

function paintPilot() {
  if (!inControl) return;
  const isOver = Boolean(link.exit), isAgents = whose.opened_by === "agent", { mine } = inControl;
  const text = isOver ? "" : pilotText(inControl, whose, root.dataset.me);
  if (isAgents && text && byId("pilot").textContent !== text) announce(text);
  setText(byId("pilot"), text);
  setHidden(byId("take"), mine || isOver);
  setHidden(byId("release"), !mine || isOver || isAgents);
  const isFocused = document.activeElement === byId("hand-back") && isAgents;
  setHidden(byId("hand-back"), !mine || isOver || !isAgents);
  if (isFocused && !mine && !isOver) byId("take").focus(); // the button that was pressed is gone
  setHidden(byId("keys"), !mine || isOver);
  root.dataset.pilot = mine ? "mine" : "";
}

function paintWatching(frame) {
  const text = watchingText(frame);
  setText(slot(byId("watching"), "text"), text);
  setHidden(byId("watching"), !text);
  const names = frame.people.filter((one) => !one.mine).map((one) => one.name);
  const changed = watchers && watchersChangedText(watchers, names);
  if (changed) announce(changed);
  watchers = names;
}

function paintBadge(badge, status) {
  const word = words.status[status];
  if (!word || badge.dataset.status === status) return;
  badge.dataset.status = status;
  setIcon(badge, word.icon, word.tone);
  badge.querySelector(".icon")?.classList.toggle("spins", word.icon === "running");
  setText(badge.lastElementChild, word.text);
}

function say(text, tone = "grey") {
  const notice = byId("notice");
  setText(slot(notice, "text"), text);
  notice.dataset.tone = tone;
  setHidden(notice, false);
  announce(text);
}

function showEnd(frame) {
  setText(slot(byId("ended"), "text"), exitText(frame ?? {}));
  setHidden(byId("ended"), false);
  for (const id of ["notice", "keys", "take", "release", "hand-back"]) setHidden(byId(id), true);
  setText(byId("pilot"), "");
  grace.show(null);
}
