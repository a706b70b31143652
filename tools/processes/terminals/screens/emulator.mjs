// One terminal as the page's own emulator paints it: it is fed every byte, and written down so that another one of its
// kind, fed what is written and then the rest of the output, shows the same.

import headless from "@xterm/headless";

import { withoutWhatScrollsAway } from "./scrolled_away.mjs";
import { writeDown } from "./written.mjs";

export const SCROLLBACK = 1000;
const AT_ONCE_BYTES = 256 * 1024; // between two answers
const MOST_UNFINISHED_BYTES = 64 * 1024; // of a sequence that has not ended yet
const GROUND = 0;
const ESC = 0x1b;

export class Emulator {
  #term;
  #queue = []; // Buffers that are still to be painted
  #sizes = []; // {at, rows, cols} to be taken on at an offset
  #unfinished = Buffer.alloc(0); // the bytes of a sequence whose end has not come
  #waiting = []; // who asked for a snapshot while something was being painted
  #isBusy = false;
  #title = "";

  // from: the offset that output goes on at, after `painted` (a snapshot's bytes), where there is one.
  constructor({ rows, cols, from = 0, painted = null, isExact = true, onPainted = () => {} }) {
    Object.assign(this, { offset: from, received: from, isExact, onPainted });
    this.#begin(rows, cols);
    if (painted) this.#paint(painted);
  }

  #begin(rows, cols) {
    this.#term = new headless.Terminal({ rows, cols, scrollback: SCROLLBACK, allowProposedApi: true, logLevel: "off" });
    this.#term.onTitleChange((title) => { this.#title = title; });
    // A full reset forgets whatever was missed.
    this.#term.parser.registerEscHandler({ final: "c" }, () => { this.isExact = true; return false; });
  }

  get waits() {
    return this.received - this.offset;
  }

  // Until everything is painted; but the begin of a character waits for its end.
  async settled() {
    while (this.#isBusy) await this.snapshot();
  }

  feed(offset, data) {
    if (offset !== this.received) this.skip(offset);
    this.#queue.push(data);
    this.received += data.length;
    this.#goOn();
  }

  // Output up to this offset was not seen: from here on the screen may be wrong.
  skip(to) {
    this.#queue = [];
    this.#unfinished = Buffer.alloc(0);
    this.received = this.offset = to;
    this.isExact = false;
  }

  resize(size) {
    this.#sizes.push({ at: this.received, ...size });
    this.#goOn();
  }

  // Gives {offset, rows, cols, exact, data, tail}: data is text, tail the bytes of what has not ended (base64).
  snapshot() {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (!this.#isBusy) this.#answer();
    });
  }

  // The screen as plain lines, for a page without scripts.
  text() {
    const { active } = this.#term.buffer;
    const lines = [];
    for (let y = 0; y < this.#term.rows; y += 1) lines.push(active.getLine(active.baseY + y)?.translateToString(true) ?? "");
    return lines.join("\n").trimEnd();
  }

  close() {
    this.#term.dispose();
  }

  #goOn() {
    if (this.#isBusy) return;
    while (this.#sizes.length && this.#sizes[0].at <= this.offset) {
      const { rows, cols } = this.#sizes.shift();
      this.#term.resize(cols, rows);
    }
    if (!this.#queue.length) return;
    const most = Math.min(AT_ONCE_BYTES, this.#sizes.length ? this.#sizes[0].at - this.offset : AT_ONCE_BYTES);
    const all = this.#queue.length === 1 ? this.#queue[0] : Buffer.concat(this.#queue);
    const data = wholeCharacters(all.subarray(0, most));
    this.#queue = data.length < all.length ? [all.subarray(data.length)] : [];
    if (!data.length) return;
    this.offset += data.length;
    this.#paint(data);
  }

  #paint(data) {
    this.#isBusy = true;
    const needed = this.#isPlainState() ? withoutWhatScrollsAway(data, SCROLLBACK + 2 * this.#term.rows + 2) : data;
    try {
      this.#term._core.writeSync(needed);
    } catch (error) {
      // Some sequences it cannot bear ("erase above" with the cursor behind the last column). No program may end the others'.
      console.error(`screens.emulator_failed ${error.message}`);
      const { rows, cols } = this.#term;
      this.#term.dispose();
      this.#begin(rows, cols);
      this.isExact = false;
    }
    this.#unfinished = this.#unfinishedOf(data);
    setImmediate(() => { // let the others in between
      this.#isBusy = false;
      this.#answer();
      this.onPainted();
      this.#goOn();
    });
  }

  #isPlainState() {
    const { buffer } = this.#term._core;
    return this.#isFinished() && buffer.scrollTop === 0 && buffer.scrollBottom === this.#term.rows - 1;
  }

  #isFinished() {
    return this.#term._core._inputHandler._parser.currentState === GROUND;
  }

  #unfinishedOf(data) {
    if (this.#isFinished()) return Buffer.alloc(0);
    const begin = data.lastIndexOf(ESC);
    const whole = begin >= 0 ? data.subarray(begin) : Buffer.concat([this.#unfinished, data]);
    if (whole.length <= MOST_UNFINISHED_BYTES) return Buffer.from(whole);
    this.isExact = false;
    return Buffer.alloc(0);
  }

  #answer() {
    if (!this.#waiting.length) return;
    const { rows, cols } = this.#term;
    const { data, isExact } = writeDown(this.#term, this.#title);
    const tail = this.#unfinished.toString("base64");
    const written = { offset: this.offset, rows, cols, exact: this.isExact && isExact, data, tail };
    for (const resolve of this.#waiting.splice(0)) resolve(written);
  }
}

// The data up to a UTF-8 character whose end has not come: the emulator loses some that come to it in two pieces.
function wholeCharacters(data) {
  for (let back = 1; back <= Math.min(3, data.length); back += 1) {
    const byte = data[data.length - back];
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return back < length ? data.subarray(0, data.length - back) : data;
  }
  return data;
}
