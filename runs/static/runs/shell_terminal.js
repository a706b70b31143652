// The picture of a shell: xterm.js, painted by offset. The pilot's window asks for a size; a viewer's font follows it. Everybody
// takes a size on at the byte of the output where the terminal itself did, so that all windows show the same.
//
// onInput(bytes): what the person typed or pasted, and answers to questions of the program (the pilot's only).

import { FitAddon } from "../xterm/addon-fit/addon-fit.mjs";
import { SearchAddon } from "../xterm/addon-search/addon-search.mjs";
import { WebLinksAddon } from "../xterm/addon-web-links/addon-web-links.mjs";
import { Terminal } from "../xterm/xterm/xterm.mjs";
import { join, wholeLength } from "./shell_bytes.js";
import { guardQueries } from "./shell_queries.js";

const FONT_PX = 14;
const LEAST_FONT_PX = 6;
const RESIZE_MS = 120;
const COLORS = {
  background: "#16181b", foreground: "#e6e7e8", cursor: "#e6e7e8", cursorAccent: "#16181b", selectionBackground: "#3d5a9b",
  black: "#2a2d31", red: "#f0807a", green: "#7fd49b", yellow: "#e6c16a", blue: "#86aefb", magenta: "#c9a2f5", cyan: "#74cfd0",
  white: "#d6d7d9", brightBlack: "#8a9099", brightRed: "#ffa39c", brightGreen: "#a2e8b8", brightYellow: "#f5d88c",
  brightBlue: "#aac7ff", brightMagenta: "#dec3ff", brightCyan: "#9be6e6", brightWhite: "#ffffff",
};
const encoder = new TextEncoder();

export class ShellTerminal {
  constructor(holder, { rows, cols, nonce, onInput, onPainted, onSize, isPilot }) {
    Object.assign(this, { holder, onInput, onPainted, onSize, isPilot });
    this.painted = 0; // the offset up to which output is on the screen
    this.replayEnd = 0; // output before it was shown to somebody already: its questions are not answered again
    this.isReplaying = true;
    this.held = []; // typed during a replay
    this.given = 0; // the offset up to which output was given to the picture
    this.sizes = []; // {at, rows, cols}: to be taken on at an offset
    this.asked = null; // the size that was asked for last
    this.begun = new Uint8Array(); // of a character whose end has not come
    this.term = new Terminal({
      rows, cols, theme: COLORS, fontSize: FONT_PX, scrollback: 10_000, cursorBlink: false, minimumContrastRatio: 4.5,
      fontFamily: getComputedStyle(document.body).getPropertyValue("--mono"), allowProposedApi: false,
      linkHandler: { activate: (_event, uri) => follow(uri) },
    });
    this.fit = new FitAddon();
    this.search = new SearchAddon();
    for (const addon of [this.fit, this.search, new WebLinksAddon((_event, uri) => follow(uri))]) this.term.loadAddon(addon);
    guardQueries(this.term.parser, () => !this.isPilot() || this.painted < this.replayEnd);
    withNonce(nonce, () => this.term.open(holder));
    this.term.onData((text) => this.#typed(encoder.encode(text)));
    this.term.onBinary((text) => this.#typed(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    const later = () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.layOut(), RESIZE_MS); };
    new ResizeObserver(later).observe(holder);
  }

  // Output of the program. What comes before `replayEnd` is parsed apart, in silence.
  write(offset, bytes) {
    const end = offset + bytes.length;
    const all = join(this.begun, bytes);
    const begin = end - all.length;
    const whole = all.subarray(0, wholeLength(all));
    this.begun = all.slice(whole.length);
    this.#takeSizes(begin);
    let done = 0;
    for (const stop of [this.replayEnd, ...this.sizes.map(({ at }) => at)].filter((at) => at > begin && at < end).sort((a, b) => a - b)) {
      const next = wholeLength(whole.subarray(0, stop - begin));
      const at = begin + next;
      this.term.write(whole.subarray(done, next), () => this.#hasPainted(at));
      this.#takeSizes(stop);
      done = next;
    }
    this.term.write(whole.subarray(done), () => this.#hasPainted(end));
    this.#takeSizes(end);
  }

  // A new connection: what comes up to `end` is a replay.
  replayUntil(end) {
    this.replayEnd = Math.max(this.replayEnd, end);
    this.asked = null; // it may not have been heard
    this.isReplaying = true;
    this.#settle();
  }

  // The whole screen as it stood at an offset, in the place of everything that is shown.
  show({ offset, rows, cols }, bytes) {
    this.term.write("", () => {
      this.term.reset();
      if (rows && cols) this.term.resize(cols, rows);
    });
    this.painted = Math.min(this.painted, offset);
    this.begun = new Uint8Array();
    this.term.write(bytes, () => { this.#hasPainted(offset); this.layOut(); });
    this.sizes = this.sizes.filter(({ at }) => at >= offset); // the screen has those before
    this.#takeSizes(offset);
  }

  // The size that the terminal has from an offset of its output on.
  setSize({ rows, cols, sized_at: at = 0 }) {
    this.sizes.push({ at, rows, cols });
    this.#takeSizes(this.given);
  }

  // Who is in control may have changed.
  refit() {
    if (!this.isPilot()) this.asked = null;
    this.term.write("", () => this.layOut());
  }

  // Ask for the size that fits into the window (pilot), or fit the font to the terminal (viewer).
  layOut() {
    if (this.isPilot()) this.#font(FONT_PX);
    const fits = this.fit.proposeDimensions();
    if (!fits || !Number.isFinite(fits.cols) || !Number.isFinite(fits.rows)) return;
    if (this.isPilot()) {
      const rows = Math.max(2, Math.min(1000, fits.rows)), cols = Math.max(10, Math.min(1000, fits.cols));
      if (this.asked?.rows === rows && this.asked.cols === cols) return;
      this.asked = { rows, cols };
      this.onSize(rows, cols);
      return;
    }
    const { rows, cols } = this.term;
    const font = Math.floor(this.term.options.fontSize * Math.min(fits.cols / cols, Math.max(fits.rows, rows) / rows) * 2) / 2;
    this.#font(Math.max(LEAST_FONT_PX, Math.min(FONT_PX, font)));
  }

  // Have programs draw their screen anew: they do when the size changes.
  nudge() {
    const { rows, cols } = this.asked ?? this.term;
    if (!this.isPilot() || rows < 3) return;
    this.onSize(rows - 1, cols);
    this.onSize(rows, cols);
  }

  paste(text) {
    this.term.paste(text);
    this.term.focus();
  }

  get wantsWholePastes() { return this.term.modes.bracketedPasteMode; }

  #font(px) {
    if (this.term.options.fontSize !== px) this.term.options.fontSize = px;
  }

  #typed(bytes) {
    if (!this.isPilot()) return;
    if (this.isReplaying) this.held.push(bytes);
    else this.onInput(bytes);
  }

  // Have the sizes up to an offset taken on once what came before is painted.
  #takeSizes(offset) {
    this.given = offset;
    const due = this.sizes.filter(({ at }) => at <= offset);
    this.sizes = this.sizes.filter(({ at }) => at > offset);
    for (const { rows, cols } of due) {
      this.term.write("", () => {
        if (rows !== this.term.rows || cols !== this.term.cols) this.term.resize(cols, rows);
        this.layOut();
      });
    }
  }

  #hasPainted(offset) {
    this.painted = offset;
    this.#settle();
    this.onPainted(offset);
  }

  #settle() {
    if (!this.isReplaying || this.painted < this.replayEnd) return;
    this.isReplaying = false;
    for (const bytes of this.held.splice(0)) this.onInput(bytes);
  }
}

// Only pages that the web serves; they learn nothing of us.
function follow(uri) {
  let url;
  try { url = new URL(uri); } catch { return; }
  if (url.protocol === "https:" || url.protocol === "http:") window.open(url.href, "_blank", "noopener,noreferrer");
}

// xterm.js makes its style elements itself; the policy of our pages takes none without the page's nonce.
function withNonce(nonce, act) {
  document.createElement = function (...args) {
    const made = Document.prototype.createElement.apply(document, args);
    if (made.localName === "style") made.nonce = nonce;
    return made;
  };
  try { return act(); } finally { delete document.createElement; }
}
