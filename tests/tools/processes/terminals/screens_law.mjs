// The laws of the screen keeper's emulator, on streams of its own making (a seed is an argument) and of real programs (files).
//
//   node screens_law.mjs cuts SEED COUNT | file PATH CUTS | away SEED COUNT | same PATH PATH
//
// cuts, file: whoever is painted a snapshot and then the rest shows what an emulator shows that saw everything.
// same: what both files print shows the same in the end.
// away: leaving out what scrolls away changes nothing that can be seen.

import fs from "node:fs";

import headless from "@xterm/headless";

import { Emulator, SCROLLBACK } from "../../../../tools/processes/terminals/screens/emulator.mjs";

const write = (term, data) => term._core.writeSync(data); // throws where the emulator cannot bear it
const plain = (rows, cols) => new headless.Terminal({ rows, cols, scrollback: SCROLLBACK, allowProposedApi: true, logLevel: "off" });

function linesOf(buffer) {
  const lines = [];
  const cell = buffer.getNullCell();
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    const cells = [];
    for (let x = 0; x < line.length; x += 1) {
      line.getCell(x, cell);
      cells.push([
        cell.getChars() || " ", cell.getWidth(), cell.getFgColorMode(), cell.getFgColor(), cell.getBgColorMode(), cell.getBgColor(),
        ...[cell.isBold(), cell.isItalic(), cell.isUnderline(), cell.isInverse(), cell.isDim(), cell.isInvisible(), cell.isStrikethrough()]
          .map(Number).map(Boolean),
      ].join());
    }
    lines.push(cells.join("|"));
  }
  return lines;
}

function stateOf(term, title) {
  const { buffer, coreService, coreMouseService, _charsetService } = term._core;
  const { normal, active } = term.buffer;
  const alternate = active.type === "alternate";
  return {
    normal: linesOf(normal), base: normal.baseY, type: active.type, screen: alternate ? linesOf(active) : null,
    cursor: [active.cursorX, active.cursorY], modes: term.modes, region: [buffer.scrollTop, buffer.scrollBottom],
    hidden: coreService.isCursorHidden, origin: coreService.decPrivateModes.origin, tabs: Array.from({ length: term.cols }, (_, x) => Boolean(buffer.tabs[x])),
    mouse: coreMouseService.activeEncoding, glevel: _charsetService.glevel, sets: [0, 1, 2, 3].map((g) => Boolean(_charsetService._charsets[g]?.["`"])),
    title,
  };
}

function difference(a, b, where = "") {
  if (typeof a !== "object" || a === null || b === null) {
    if (typeof a === "string" && typeof b === "string" && a.includes("|")) return difference(a.split("|"), b.split("|"), where);
  }
  if (typeof a !== "object" || a === null || b === null) return Object.is(a, b) ? null : `${where}: ${JSON.stringify(a)} is ${JSON.stringify(b)}`;
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const found = difference(a[key] ?? null, b[key] ?? null, `${where}.${key}`);
    if (found) return found;
  }
  return null;
}

function titled(term) {
  const told = { title: "" };
  term.onTitleChange((title) => { told.title = title; });
  return told;
}

async function cut(data, at, size, whole) {
  const emulator = new Emulator(size);
  emulator.feed(0, data.subarray(0, at));
  await emulator.settled();
  const snapshot = await emulator.snapshot();
  emulator.close();
  if (!snapshot.exact) return "inexact";
  if (snapshot.offset > at || snapshot.offset < at - 3) return fail(`a snapshot at ${snapshot.offset} of ${at}`);
  const term = plain(snapshot.rows, snapshot.cols);
  const told = titled(term);
  await write(term, Buffer.concat([Buffer.from(snapshot.data), Buffer.from(snapshot.tail, "base64")]));
  await write(term, data.subarray(snapshot.offset));
  const found = difference(whole, stateOf(term, told.title));
  term.dispose();
  if (found) fail(`cut at ${at} of ${data.length}: ${found}\n${JSON.stringify(data.subarray(Math.max(0, at - 150), at).toString("latin1"))} | ${JSON.stringify(data.subarray(at).toString("latin1"))}`);
  return "exact";
}

async function shown(data, size) {
  const term = plain(size.rows, size.cols);
  const told = titled(term);
  await write(term, data);
  const state = stateOf(term, told.title);
  term.dispose();
  return state;
}

function fail(text) {
  console.error(text);
  process.exit(1);
}

function dice(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * n);
  };
}

const CSI = "\x1b[";
function piece(roll, { rows, cols }) {
  const at = (n) => 1 + roll(n);
  const kinds = [
    () => "word ".repeat(at(30)), () => "\r\n", () => "\r\n", () => "\r", () => "\t", () => "\b", () => "👩‍👩‍👧‍👦 中文 é 🙂",
    () => `${CSI}${at(rows)};${at(cols)}H`, () => `${CSI}${at(3)}${"ABCD"[roll(4)]}`, () => `${CSI}${roll(3)}J`, () => `${CSI}${roll(3)}K`,
    () => `${CSI}${[0, 1, 3, 4, 7, 31, 42, 93, 104][roll(9)]}m`, () => `${CSI}38;5;${roll(256)}m`, () => `${CSI}48;2;${roll(256)};7;9m`,
    () => { const top = at(rows - 2); return `${CSI}${top};${top + 1 + roll(rows - top - 1)}r`; }, () => `${CSI}r`,
    () => `${CSI}${at(3)}${"LMPX@ST"[roll(7)]}`, () => `${CSI}?1049${"hl"[roll(2)]}`, () => `${CSI}?${[1, 6, 7, 25, 1000, 1002, 1004, 1006, 2004][roll(9)]}${"hl"[roll(2)]}`,
    () => `\x1b]2;title ${roll(99)}\x07`, () => `\x1b(${"0B"[roll(2)]}`, () => "\x0e", () => "\x0f", () => `${CSI}4${"hl"[roll(2)]}`,
    () => "qqxx```~", () => `${CSI}3g`, () => "\x1bH", () => "\x1bM", () => "\x1bD", () => `${CSI}c${CSI}6n`, () => `${CSI}${at(6)} q`,
  ];
  return kinds[roll(kinds.length)]();
}

function stream(roll, size, pieces) {
  return Buffer.from(Array.from({ length: pieces }, () => piece(roll, size)).join(""));
}

const [what, ...args] = process.argv.slice(2);
const counts = { exact: 0, inexact: 0 };
if (what === "cuts") {
  const roll = dice(Number(args[0]));
  for (let n = 0; n < Number(args[1]); n += 1) {
    const size = { rows: 4 + roll(20), cols: 10 + roll(80) };
    const data = stream(roll, size, 20 + roll(100));
    const whole = await shown(data, size).catch(() => null);
    if (whole === null) continue; // what it cannot bear has no screen
    for (let i = 0; i < 8; i += 1) counts[await cut(data, roll(data.length + 1), size, whole)] += 1;
  }
} else if (what === "file") {
  const data = fs.readFileSync(args[0]);
  const size = { rows: 24, cols: 80 };
  const whole = await shown(data, size);
  const step = Math.max(1, Math.floor(data.length / Number(args[1])));
  for (let at = 0; at <= data.length; at += step) counts[await cut(data, at, size, whole)] += 1;
} else if (what === "same") {
  const size = { rows: 24, cols: 80 };
  const [one, other] = await Promise.all(args.map((path) => shown(fs.readFileSync(path), size)));
  const found = difference(one, other);
  if (found) fail(found);
  counts.exact += 1;
} else {
  const roll = dice(Number(args[0]));
  for (let n = 0; n < Number(args[1]); n += 1) {
    const size = { rows: 4 + roll(20), cols: 10 + roll(80) };
    const flood = Array.from({ length: 1000 + roll(3000) }, (_, i) => `${"x".repeat(roll(size.cols * 2))}${i}\r\n`).join("");
    const data = Buffer.concat([stream(roll, size, roll(60)), Buffer.from(flood), stream(roll, size, roll(20))]);
    const emulator = new Emulator(size);
    for (let at = 0; at < data.length; at += 40_000) emulator.feed(at, data.subarray(at, at + 40_000));
    await emulator.settled();
    const snapshot = await emulator.snapshot();
    const again = await shown(Buffer.concat([Buffer.from(snapshot.data), Buffer.from(snapshot.tail, "base64")]), size);
    const found = difference(await shown(data, size), again);
    if (found && snapshot.exact) fail(`seed ${args[0]}, stream ${n}: ${found}`);
    counts[snapshot.exact ? "exact" : "inexact"] += 1;
  }
}
console.log(JSON.stringify(counts));
process.exit(0);
