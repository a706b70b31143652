// The modules of a shell's page that need no DOM, in Node: `node --test tests/runs/shell_in_node.mjs`.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

globalThis.document = { documentElement: { lang: "en" } };
const from = (name) => import(`../../runs/static/runs/${name}.js`);
const { INPUT, OUTPUT, SCREEN, pack, unpack } = await from("shell_frames");
const { ShellLink } = await from("shell_link");
const { guardQueries } = await from("shell_queries");
const { isRisky, linesOf, PasteGuard } = await from("shell_paste");
const { keyText, withControl } = await from("shell_keys");
const { exitText, pilotText, watchersChangedText, watchingText } = await from("shell_words");
const { countdown } = await from("words");
const bytes = (text) => new TextEncoder().encode(text);
const links = [];
const text = (data) => new TextDecoder().decode(data);

class Socket {
  static all = [];
  constructor(url) {
    this.url = new URL(url);
    this.readyState = 1;
    this.said = [];
    this.input = [];
    Socket.all.push(this);
  }
  send(data) {
    if (typeof data === "string") return this.said.push(JSON.parse(data));
    const { channel, offset, bytes: typed } = unpack(data.buffer);
    assert.equal(channel, INPUT);
    this.input.push([offset, text(typed)]);
  }
  close() {}
  say(frame) { this.onmessage({ data: JSON.stringify(frame) }); }
  bytes(channel, offset, data) { this.onmessage({ data: pack(channel, offset, bytes(data)).buffer }); }
  ready(more = {}) { this.say({ type: "ready", role: "pilot", generation: 7, taken: 0, end: 0, ...more }); }
  lose(code = 1006) { this.readyState = 3; this.onclose({ code }); }
}

function opened({ role = "pilot", had = null } = {}) {
  const told = [];
  const on = Object.fromEntries(["ready", "screen", "output", "skipped", "pilot", "size", "run", "exit", "shut", "state", "watching"]
    .map((name) => [name, (...args) => told.push([name, ...args])]));
  const link = new ShellLink({ url: "ws://here/", role, had, on, socketClass: Socket, timing: { first_delay: 1e6 } });
  links.push(link);
  const names = (name) => told.filter(([one]) => one === name).map(([, ...args]) => args);
  link.open();
  return { link, names, socket: Socket.all.at(-1), again() { link.retry(); return Socket.all.at(-1); } };
}

afterEach(() => links.splice(0).forEach((link) => link.close())); // their timers would keep Node up

test("one's own other window is not told of as somebody else", () => {
  const elsewhere = { name: "ada", mine: false, generation: 3 };
  assert.equal(pilotText(elsewhere, {}, "ada"), "Another window of yours is in control");
  assert.equal(pilotText(elsewhere, {}, "bob"), "ada is in control");
  assert.equal(pilotText({ name: null, mine: false, generation: null }, {}, "ada"), "Nobody is in control");
  assert.equal(pilotText({ ...elsewhere, mine: true }, {}, "ada"), "You are in control");
});

test("output goes on at the offset after a cut, and is given once", () => {
  const page = opened();
  page.socket.ready();
  page.socket.bytes(OUTPUT, 0, "one ");
  page.socket.bytes(OUTPUT, 4, "two ");
  page.socket.lose();
  const next = page.again();
  assert.equal(next.url.searchParams.get("from"), "8");
  assert.equal(next.url.searchParams.get("had"), "7");
  next.ready({ continues: true });
  next.bytes(OUTPUT, 4, "two three");
  assert.equal(page.names("output").map(([, data]) => text(data)).join(""), "one two three");
});

test("a hole is not skipped: the page comes back with its offset", () => {
  const page = opened();
  page.socket.ready();
  page.socket.bytes(OUTPUT, 0, "one");
  page.socket.bytes(OUTPUT, 9, "late");
  assert.equal(page.names("output").length, 1);
  assert.equal(page.names("state").at(-1)[0], "reconnecting");
  assert.equal(page.again().url.searchParams.get("from"), "3");
});

test("a screen sets the offset", () => {
  const page = opened();
  page.socket.ready();
  page.socket.say({ type: "skipped", from: 0, to: 900 });
  page.socket.say({ type: "screen", offset: 1000, rows: 24, cols: 80, exact: true });
  page.socket.bytes(SCREEN, 1000, "painted");
  page.socket.bytes(OUTPUT, 1000, "x");
  assert.deepEqual(page.names("output").map(([at]) => at), [1000]);
  assert.equal(page.names("screen")[0][0].exact, true);
  page.link.painted(1001);
  assert.deepEqual(page.socket.said.at(-1), { type: "ack", offset: 1001 });
});

test("what was typed and not taken is sent again, once, where nobody typed in between", () => {
  const page = opened();
  page.link.type(bytes("early ")); // before the first connection is ready
  page.socket.ready({ taken: 100 });
  page.link.type(bytes("abc"));
  assert.deepEqual(page.socket.input, [[100, "early "], [106, "abc"]]);
  page.socket.say({ type: "taken", offset: 107 });
  page.socket.lose();
  page.link.type(bytes("d"));
  const next = page.again();
  next.ready({ taken: 108, continues: true, generation: 8 });
  assert.equal(next.input.map(([, typed]) => typed).join(""), "cd");
  assert.equal(next.input[0][0], 108);
});

test("what was typed is dropped, and said, where somebody else was in control", () => {
  const page = opened();
  page.socket.ready();
  page.link.type(bytes("rm "));
  page.socket.lose();
  const next = page.again();
  next.ready({ taken: 40, continues: false, generation: 9 });
  assert.deepEqual(next.input, []);
  assert.equal(page.names("ready").at(-1)[1].lost, 3);
  page.link.type(bytes("ls"));
  assert.deepEqual(next.input, [[40, "ls"]]);
});

test("a displaced pilot types nothing, and does not come back as one", () => {
  const page = opened();
  page.socket.ready();
  page.socket.say({ type: "pilot", generation: 8, name: "other", mine: false });
  assert.equal(page.link.type(bytes("x")), false);
  assert.deepEqual(page.socket.input, []);
  page.socket.lose();
  assert.equal(page.again().url.searchParams.get("role"), "viewer");
});

test("what is handed back in a cut is handed back after it, once", () => {
  const page = opened();
  page.socket.ready();
  page.socket.say({ type: "run", held_by: "ada" });
  page.socket.lose();
  page.link.handBack();
  assert.deepEqual(page.socket.said, []);
  for (const isHeard of [false, true]) {
    const next = page.again();
    next.ready({ role: "viewer", generation: null });
    assert.deepEqual(next.said, [{ type: "hand_back" }]);
    if (isHeard) next.say({ type: "run", held_by: null });
    next.lose();
  }
  const later = page.again();
  later.ready({ role: "viewer", generation: null });
  assert.deepEqual(later.said, []);
});

test("who takes control again hands nothing back", () => {
  const page = opened();
  page.socket.ready();
  page.socket.lose();
  page.link.handBack();
  page.link.takeControl();
  const next = page.again();
  assert.equal(next.url.searchParams.get("role"), "pilot");
  next.ready();
  assert.deepEqual(next.said, []);
});

test("control that is asked for in a cut is asked for after it, until the server says who has it", () => {
  const page = opened({ role: "viewer" });
  const stands = (socket) => {
    socket.ready({ role: "viewer", generation: null });
    socket.say({ type: "pilot", generation: 4, name: "bob", mine: false });
  };
  stands(page.socket);
  page.socket.lose();
  page.link.takeControl();
  for (const _ of [1, 2]) {
    const next = page.again();
    stands(next);
    assert.deepEqual(next.said, [{ type: "take_control" }]);
    next.lose();
  }
  const heard = page.again();
  stands(heard);
  heard.say({ type: "pilot", generation: 5, name: "me", mine: true, taken: 3 });
  heard.say({ type: "pilot", generation: 6, name: "bob", mine: false }); // a displaced window takes nothing back
  heard.lose();
  const later = page.again();
  stands(later);
  assert.deepEqual(later.said, []);
});

test("control that is refused is not asked for again after a cut", () => {
  const page = opened({ role: "viewer" });
  page.socket.ready({ role: "viewer", generation: null });
  page.link.takeControl();
  page.socket.say({ type: "pilot", generation: 4, name: "bob", mine: false });
  page.socket.lose();
  const next = page.again();
  next.ready({ role: "viewer", generation: null });
  next.say({ type: "pilot", generation: 4, name: "bob", mine: false });
  assert.deepEqual(next.said, []);
});

test("control that is taken begins where input stands", () => {
  const page = opened({ role: "viewer" });
  page.socket.ready({ role: "viewer", generation: null });
  page.link.takeControl();
  assert.deepEqual(page.socket.said.at(-1), { type: "take_control" });
  page.link.type(bytes("soon"));
  page.socket.say({ type: "pilot", generation: 3, name: "me", mine: true, taken: 12 });
  assert.deepEqual(page.socket.input, [[12, "soon"]]);
});

test("a large paste waits for what the terminal takes", () => {
  const page = opened();
  page.socket.ready();
  page.link.type(new Uint8Array(1_000_000).fill(97));
  const sent = () => page.socket.input.reduce((sum, [, typed]) => sum + typed.length, 0);
  assert.ok(sent() >= 256 * 1024 && sent() < 300 * 1024);
  for (let taken = 0; taken < 1_000_000;) {
    taken = sent();
    page.socket.say({ type: "taken", offset: taken });
  }
  assert.equal(sent(), 1_000_000);
  let at = 0;
  for (const [offset, typed] of page.socket.input) { assert.equal(offset, at); at += typed.length; }
});

test("a gap is filled from where the server stands", () => {
  const page = opened();
  page.socket.ready();
  page.link.type(bytes("abcdef"));
  page.socket.say({ type: "input", problem: "gap", taken: 2 });
  assert.deepEqual(page.socket.input.at(-1), [2, "cdef"]);
});

test("after a stop nothing is typed", () => {
  const page = opened();
  page.socket.ready();
  page.socket.say({ type: "input", problem: "shut", taken: 0 });
  assert.equal(page.link.type(bytes("x")), false);
  assert.equal(page.names("shut").length, 1);
});

test("the end of the shell, and a door that is shut, are final", () => {
  for (const [code, exit, state] of [[1000, true, "ended"], [4501, false, "signed_out"], [4503, false, "forbidden"]]) {
    const page = opened();
    page.socket.ready();
    if (exit) page.socket.say({ type: "exit", code: 0, signal: null, why: "exited" });
    page.socket.lose(code);
    assert.equal(page.names("state").at(-1)[0], state);
    const count = Socket.all.length;
    page.link.retry();
    assert.equal(Socket.all.length, count);
  }
});

test("questions of programs are answered by the pilot's terminal alone, and never in a replay", async () => {
  const { default: headless } = await import("@xterm/headless");
  const term = new headless.Terminal({ allowProposedApi: true });
  let isSilent = true;
  guardQueries(term.parser, () => isSilent);
  const answers = [];
  term.onData((answer) => answers.push(answer));
  const ask = (query) => new Promise((resolve) => term.write(query, resolve));
  const queries = ["\x1b[c", "\x1b[>c", "\x1b[6n", "\x1b[5n", "\x1b[?6n", "\x1b[18t", "\x1b[?25$p", "\x1b[4$p", "\x1bP$qm\x1b\\", "\x1b]11;?\x07", "\x1b]4;1;?\x07"];
  for (const query of queries) await ask(query);
  assert.deepEqual(answers, []);
  isSilent = false;
  for (const query of ["\x1b[c", "\x1b[6n", "\x1b[?25$p", "\x1bP$qm\x1b\\"]) {
    const before = answers.length;
    await ask(query);
    assert.equal(answers.length, before + 1, JSON.stringify(query));
  }
});

test("lines that run as they come are asked for first", () => {
  assert.ok(isRisky("ls\n", false));
  assert.ok(isRisky("a\r\nb", false));
  assert.ok(!isRisky("a\nb", true));
  assert.ok(!isRisky("one line", false));
  assert.deepEqual(linesOf("a\r\nb\n"), ["a", "b"]);
});

test("a paste brings no control characters: they would run it, or end the marks around it", () => {
  const pasted = [], holder = new EventTarget(), shown = [];
  const dialog = Object.assign(new EventTarget(), { showModal: () => shown.push(1), returnValue: "" });
  const terminal = { holder, wantsWholePastes: true, paste: (text) => pasted.push(text), term: { focus() {} } };
  new PasteGuard(dialog, { terminal, say: (lines) => shown.push(...lines) });
  const paste = (text) => {
    const event = Object.assign(new Event("paste", { cancelable: true }), { clipboardData: { getData: () => text } });
    holder.dispatchEvent(event);
    return event.defaultPrevented;
  };
  assert.ok(!paste("plain\tfamily 家族\nsecond line")); // left to xterm.js
  assert.ok(paste("echo \x1b[201~\rid\r\x9b201~"));
  assert.deepEqual(pasted, ["echo [201~\rid\r201~"]);
  terminal.wantsWholePastes = false;
  assert.ok(paste("id\x0f\x03\x04\x7f\0")); // Ctrl-O runs a line of bash
  assert.deepEqual([pasted[1], shown], ["id", []]);
  assert.ok(paste("id\x1b\nls"));
  assert.deepEqual(shown, ["id", "ls", 1]);
  dialog.returnValue = "paste";
  dialog.dispatchEvent(new Event("close"));
  assert.equal(pasted[2], "id\nls");
});

test("keys that phones lack", () => {
  assert.equal(keyText("up", false), "\x1b[A");
  assert.equal(keyText("up", true), "\x1bOA");
  assert.equal(keyText("esc"), "\x1b");
  assert.deepEqual([...withControl(bytes("c"))], [3]);
  assert.deepEqual([...withControl(bytes("["))], [27]);
  assert.deepEqual([...withControl(bytes("1"))], [49]);
  assert.deepEqual([...withControl(bytes("\x1b[A"))], [...bytes("\x1b[A")]);
});

test("words", () => {
  assert.equal(countdown(872), "14:32");
  assert.equal(countdown(3600), "1:00:00");
  assert.equal(exitText({ code: 0, signal: null, why: "exited" }), "Ended: exit 0");
  assert.equal(exitText({ code: null, signal: 9, why: "client_gone" }), "Ended: nobody came back in time, killed by signal 9");
  assert.equal(exitText({ code: null, signal: null, why: "user" }), "Ended: stopped");
});

test("who else watches is said by name, and only so many names", () => {
  const person = (name, mine = false) => ({ name, windows: 1, mine });
  assert.equal(watchingText({ people: [], others: 0 }), "");
  assert.equal(watchingText({ people: [person("me", true)], others: 0 }), "");
  assert.equal(watchingText({ people: [person("ann"), person("me", true), person("bob")], others: 0 }), "Watching: ann, bob");
  const seven = [..."abcdefg"].map((name) => person(name));
  assert.equal(watchingText({ people: seven, others: 3 }), "Watching: a, b, c, d, e, 5 more");
});

test("of who watches only changes are told aloud", () => {
  assert.equal(watchersChangedText(["ann"], ["ann"]), "");
  assert.equal(watchersChangedText(["ann"], ["ann", "bob"]), "bob: now watching.");
  assert.equal(watchersChangedText(["ann", "bob"], ["cid"]), "cid: now watching. ann, bob: watching no more.");
});

test("a heartbeat is answered also while the terminal has not begun: who waits for it is there", () => {
  const page = opened({ role: "viewer" });
  page.socket.say({ type: "heartbeat" });
  assert.deepEqual(page.socket.said.at(-1), { type: "keepalive" });
  page.socket.say({ type: "watching", people: [], others: 0 });
  assert.equal(page.names("watching").length, 1);
});
