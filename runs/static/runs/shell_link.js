// The connection of a shell's page: bytes by offset both ways, through every cut. No DOM, so Node can test it.
//
//   const link = new ShellLink({ url, role, had, on, socketClass, timing });
//   link.open(); link.type(bytes); link.painted(offset); link.resize(rows, cols); link.takeControl(); link.retry();
//
// on: ready(frame, {awaySeconds, lost}), screen(frame, bytes), output(offset, bytes), skipped(frame), pilot(frame), size(frame),
// run(frame), exit(frame), shut(), state(name, detail). States: connecting | live | reconnecting {retry_at} |
// restarting {retry_at} | offline | ended | signed_out | forbidden; the last three are final. docs/PROTOCOL.md, "Shells".
//
// Output: `next` is the offset of the next byte; a frame before it is cut, one behind it means a hole: come back.
// Input: kept from `base` (what the terminal has taken) on, so that a cut neither loses nor doubles a key. It is sent
// again only where the server says that nobody else typed in between (`continues`); else it is dropped, and said.

import { INPUT, OUTPUT, SCREEN, pack, slice, unpack } from "./shell_frames.js";

const FRAME_BYTES = 16 * 1024;
const AHEAD_BYTES = 256 * 1024; // sent and not taken yet: the server closes at 1 MiB
const MOST_BYTES = 16 << 20; // typed or pasted, and not taken yet
const ACK_BYTES = 32 * 1024;
const TIMING = { first_delay: 500, last_delay: 20_000, tick: 4_000, opening: 15_000, dead: 35_000 };

export class ShellLink {
  constructor({ url, role, had = null, on, socketClass = globalThis.WebSocket, timing = {} }) {
    Object.assign(this, { url, role, had, on, socketClass, timing: { ...TIMING, ...timing } });
    this.next = null;
    this.acked = this.seen = 0; // of output: told the server, painted
    this.generation = null; // while we are in control
    this.typed = []; // input from `base` on that the terminal has not taken
    this.base = null; // null until the server says where input stands
    this.waiting = 0; // bytes of `typed`
    this.sent = 0; // bytes of `typed` that this connection has sent
    this.tries = 0;
    this.isOver = this.isShut = this.isReady = false;
    this.hands = null; // take_control or hand_back, not known to have come to pass; isAsked: on this connection
    this.socket = this.timer = this.lostAt = null;
    this.ticker = setInterval(() => this.#tick(), this.timing.tick);
  }

  get isPilot() { return this.generation !== null; }
  get isLive() { return this.isReady; }

  open() {
    if (this.isOver || this.socket) return;
    clearTimeout(this.timer);
    this.on.state("connecting");
    const url = new URL(this.url);
    url.searchParams.set("role", this.role);
    if (this.next !== null) url.searchParams.set("from", this.next);
    if (this.had !== null) url.searchParams.set("had", this.had);
    this.isReady = this.isAsked = false;
    this.closing = this.pendingScreen = null;
    this.heardAt = Date.now();
    const socket = (this.socket = new this.socketClass(url.href, ["app.v1"]));
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      this.heardAt = Date.now();
      if (typeof event.data === "string") this.#take(JSON.parse(event.data));
      else this.#takeBytes(unpack(event.data));
    };
    socket.onclose = (event) => { if (socket === this.socket) this.#lost(event.code); };
  }

  retry() {
    if (this.socket) return;
    this.tries = 0;
    this.open();
  }

  goOffline() {
    if (this.isOver) return;
    this.#leave();
    this.on.state("offline");
  }

  close() {
    this.isOver = true;
    clearInterval(this.ticker);
    this.#leave();
  }

  // Keys and pastes of the person. Returns false where they have no effect: a viewer's, or after a stop.
  type(bytes) {
    if (this.isShut || this.isOver || this.role !== "pilot" || this.waiting + bytes.length > MOST_BYTES) return false;
    if (!bytes.length) return true;
    this.typed.push(bytes);
    this.waiting += bytes.length;
    this.#flush();
    return true;
  }

  // The terminal has painted the output up to here.
  painted(offset) {
    this.seen = Math.max(this.seen, offset);
    if (this.isReady && (this.seen - this.acked >= ACK_BYTES || this.seen === this.next)) this.#ack();
  }

  resize(rows, cols) { if (this.isPilot) this.#say({ type: "resize", rows, cols }); }

  // Both are said again after each cut, until the server says who is in control: or the agent would wait for nobody.
  takeControl() { this.#change("take_control", "pilot"); }

  handBack() { this.#becomeViewer(); this.#change("hand_back", "viewer"); }

  releaseControl() {
    this.#becomeViewer();
    this.hands = null;
    this.#say({ type: "release_control" });
  }

  #change(hands, role) {
    Object.assign(this, { hands, role, isAsked: this.isReady });
    this.#say({ type: hands });
  }

  #say(frame) {
    if (this.isReady && this.socket.readyState === 1) this.socket.send(JSON.stringify(frame));
  }

  #ack() {
    this.acked = this.seen;
    this.#say({ type: "ack", offset: this.seen });
  }

  #take(frame) {
    switch (frame.type) {
      case "ready": return this.#ready(frame);
      case "screen": this.pendingScreen = frame; return;
      case "skipped": this.next = null; return this.on.skipped(frame);
      case "taken": return this.#taken(frame.offset);
      case "pilot": return this.#pilot(frame);
      case "size": return this.on.size(frame);
      case "run":
        if (frame.held_by === null && this.hands === "hand_back") this.hands = null;
        return this.on.run(frame);
      case "exit": this.exit = frame; return this.on.exit(frame);
      case "input": return frame.problem === "shut" ? this.#shut() : this.#again(frame.taken);
      case "closing": this.closing = frame; return;
      case "heartbeat": // also before the terminal is there: whoever waits for it is here
        if (this.socket.readyState === 1) this.socket.send(JSON.stringify({ type: "keepalive" }));
        return;
      case "watching": return this.on.watching(frame);
    }
  }

  #takeBytes({ channel, offset, bytes }) {
    if (channel === SCREEN) {
      this.next = this.seen = this.acked = offset;
      this.tries = 0;
      return this.on.screen(this.pendingScreen ?? {}, bytes);
    }
    if (channel !== OUTPUT) return;
    if (this.next === null) this.seen = this.acked = this.next = offset;
    if (offset > this.next) return this.#drop(); // a hole is never skipped: come back with the offset
    const fresh = bytes.subarray(this.next - offset);
    if (!fresh.length) return;
    this.tries = 0;
    const at = this.next;
    this.next += fresh.length;
    this.on.output(at, fresh);
  }

  #ready(frame) {
    const awaySeconds = this.lostAt === null ? null : (Date.now() - this.lostAt) / 1000;
    this.isReady = true;
    this.lostAt = null;
    this.sent = 0;
    let lost = 0;
    if (frame.role === "pilot") {
      const isOurs = this.base === null || (frame.continues && this.base <= frame.taken && frame.taken <= this.base + this.waiting);
      if (!isOurs) lost = this.#forget();
      this.#begin(frame.generation, frame.taken);
    } else {
      lost = this.#forget();
      this.#becomeViewer();
    }
    if (this.hands === "hand_back") this.#change("hand_back", "viewer");
    this.on.state("live");
    this.on.ready(frame, { awaySeconds, lost });
  }

  #pilot(frame) {
    if (frame.mine) {
      // What the server has of us may be less than we sent: it takes nothing a second time.
      if (frame.taken !== undefined) this.#begin(frame.generation, frame.taken);
    } else {
      if (this.isPilot) this.#becomeViewer();
      if (this.hands === "take_control" && this.isAsked) this.hands = null; // refused: asking again is the person's
      else if (this.hands === "take_control") this.takeControl(); // it is how things stood when we came
    }
    this.on.pilot(frame);
  }

  // In control, with input standing at `taken`.
  #begin(generation, taken) {
    if (this.base === null || taken < this.base || taken > this.base + this.waiting) this.base = taken;
    this.role = "pilot";
    if (this.hands === "take_control") this.hands = null;
    this.had = this.generation = generation;
    this.#forgetTaken(taken);
    this.#again(taken);
  }

  #becomeViewer() {
    this.role = "viewer";
    this.generation = null;
    this.#forget();
  }

  // Drop input that has no way to the terminal any more. Returns how much.
  #forget() {
    const lost = this.waiting;
    this.typed = [];
    this.waiting = this.sent = 0;
    this.base = null;
    return lost;
  }

  #shut() {
    this.isShut = true;
    this.#forget();
    this.on.shut();
  }

  #taken(offset) {
    this.#forgetTaken(offset);
    this.#flush();
  }

  #forgetTaken(offset) {
    if (this.base === null || offset <= this.base) return;
    let gone = Math.min(offset - this.base, this.waiting);
    this.base = offset;
    this.waiting -= gone;
    this.sent = Math.max(0, this.sent - gone);
    while (gone > 0) {
      const first = this.typed[0];
      if (first.length > gone) {
        this.typed[0] = first.subarray(gone);
        break;
      }
      gone -= first.length;
      this.typed.shift();
    }
  }

  #again(taken) {
    if (this.base === null) return;
    this.sent = Math.max(0, taken - this.base);
    this.#flush();
  }

  #flush() {
    if (!this.isReady || !this.isPilot || this.base === null || this.socket.readyState !== 1) return;
    while (this.sent < Math.min(this.waiting, AHEAD_BYTES)) {
      const bytes = slice(this.typed, this.sent, FRAME_BYTES);
      this.socket.send(pack(INPUT, this.base + this.sent, bytes));
      this.sent += bytes.length;
    }
  }

  #lost(closeCode) {
    this.socket = null;
    if (this.isReady) this.lostAt = Date.now();
    this.isReady = false;
    const code = this.closing?.code ?? closeCode;
    if (code >= 4500 && code < 5000) return this.#end(code === 4501 ? "signed_out" : "forbidden");
    if (this.exit && (code === 1000 || this.closing?.reason === "ended")) return this.#end("ended");
    const ceiling = Math.min(this.timing.last_delay, this.timing.first_delay * 2 ** ++this.tries);
    const asked = (this.closing?.retry_after ?? 0) * 1000;
    const delay = Math.max(asked, this.timing.first_delay + Math.random() * (ceiling - this.timing.first_delay));
    this.timer = setTimeout(() => this.open(), delay);
    const isRestart = code === 4030 || code === 1012;
    this.on.state(isRestart ? "restarting" : "reconnecting", { retry_at: Date.now() + delay });
  }

  #end(state) {
    this.isOver = true;
    clearInterval(this.ticker);
    this.on.state(state);
  }

  #tick() {
    if (!this.socket) return;
    const silence = Date.now() - this.heardAt;
    if (silence > (this.isReady ? this.timing.dead : this.timing.opening)) this.#drop();
    else this.#say({ type: "keepalive" });
  }

  #drop() { this.#leave(); this.#lost(1006); }

  #leave() {
    const socket = this.socket;
    this.socket = null; // its later events are nobody's
    if (this.isReady) this.lostAt = Date.now();
    this.isReady = false;
    socket?.close();
    clearTimeout(this.timer);
  }
}
