// A terminal written down as the sequences that make another one of the same size equal to it: cells, scrollback, both
// screens, cursors, modes. It is to be painted onto a fresh terminal.
//
// What the emulator has no public word for (scroll region, character sets, tab stops, saved cursors, the hidden cursor, how
// the mouse is told) is read from its own parts; their names hold for the version that package-lock.json names, and
// tests/tools/processes/terminals/test_screens.py fails where they do not.

const CSI = "\x1b[";
const PALETTE_16 = 1 << 24; // colour modes of the emulator
const FLAGS = ["isBold", "isDim", "isItalic", "isUnderline", "isBlink", "isInverse", "isInvisible", "isStrikethrough", "isOverline"];
const NO_STYLE = `${CSI}0m`;

// Gives {data, isExact}; not exact where the cursor, or half a character, stands where no sequence can put it.
export function writeDown(term, title) {
  const { _bufferService, coreService, _charsetService } = term._core;
  const { normal, alt } = _bufferService.buffers;
  const { active } = term.buffer;
  const halves = { found: 0 }; // of wide characters, whose other half was written over or pushed out: nothing can write them
  const parts = [lines(term, term.buffer.normal, halves), saved(normal), frame(term, normal)];
  let buffer = normal;
  if (active.type === "alternate") {
    parts.push(place(term, term.buffer.normal, normal), `${CSI}?1047h`, NO_STYLE, `${CSI}H`, lines(term, active, halves), saved(alt), frame(term, alt));
    buffer = alt;
  }
  if (title) parts.push(`\x1b]2;${title}\x07`);
  parts.push(modes(term), pen(term, active, buffer));
  const { origin } = coreService.decPrivateModes;
  const isWithin = buffer.y >= buffer.scrollTop && buffer.y <= buffer.scrollBottom;
  const isUsualSet = isGraphics(_charsetService.charset) === isGraphics(_charsetService._charsets[_charsetService.glevel]);
  return { data: parts.join(""), isExact: (!origin || isWithin) && isUsualSet && !halves.found };
}

// Where it scrolls and where its tabs stop. Moves the cursor.
function frame(term, buffer) {
  const hasRegion = buffer.scrollTop !== 0 || buffer.scrollBottom !== term.rows - 1;
  return tabStops(buffer, term.cols) + (hasRegion ? `${CSI}${buffer.scrollTop + 1};${buffer.scrollBottom + 1}r` : "");
}

// The cursor and what it writes with. Where writing a character was the last that was done, it is the last here too: what
// comes may join it.
function pen(term, shown, buffer) {
  const { _inputHandler, coreService } = term._core;
  const { origin } = coreService.decPrivateModes;
  const worn = style(_inputHandler._curAttrData);
  const hasInsert = coreService.modes.insertMode;
  const insert = hasInsert ? `${CSI}4h` : "";
  const top = origin ? buffer.scrollTop : 0;
  if (!_inputHandler._parser.precedingJoinState || buffer.x === 0) return place(term, shown, buffer, top) + worn + insert;
  const line = shown.getLine(buffer.ybase + buffer.y);
  const x = line.getCell(buffer.x - 1).getWidth() === 0 ? buffer.x - 2 : buffer.x - 1;
  const room = hasInsert ? `${CSI}${buffer.x - x}P` : ""; // what is inserted again has to go first
  return `${CSI}${buffer.y - top + 1};${x + 1}H${worn}${room}${insert}${line.getCell(x).getChars() || " "}`;
}

function lines(term, buffer, halves) {
  const parts = [];
  const cell = buffer.getNullCell();
  let worn = NO_STYLE;
  for (let y = 0; y < buffer.length; y += 1) {
    const line = buffer.getLine(y);
    const goesOn = buffer.getLine(y + 1)?.isWrapped ?? false;
    if (y && !line.isWrapped) parts.push("\r\n");
    for (let x = 0; x < term.cols; x += 1) {
      line.getCell(x, cell);
      const wanted = style(cell);
      const isBlank = cell.getChars() === "";
      // A line that goes on must be written to its end, and the next one from its begin: that is how they hang together.
      if (isErased(cell) && !goesOn && !(line.isWrapped && x === 0)) {
        let n = 1;
        while (x + n < term.cols && isErased(line.getCell(x + n, cell)) && style(cell) === wanted) n += 1;
        const isRest = x + n === term.cols;
        if (wanted !== NO_STYLE || line.isWrapped) { // a line that was wrapped to came in with a background
          if (wanted !== worn) parts.push(wanted);
          worn = wanted;
          parts.push(`${CSI}${n}X`);
        }
        if (!isRest) parts.push(`${CSI}${n}C`);
        x += n - 1;
        continue;
      }
      if (wanted !== worn) parts.push(wanted);
      worn = wanted;
      const [chars, width] = [cell.getChars(), cell.getWidth()];
      const isWhole = width === 1 || (width === 2 && x + 1 < term.cols && line.getCell(x + 1, cell).getWidth() === 0);
      if (!isWhole) halves.found += 1;
      parts.push(isBlank || !isWhole ? " " : chars);
      if (isWhole) x += width - 1;
    }
    if (worn !== NO_STYLE && !goesOn) {
      parts.push(NO_STYLE); // lines that scroll in are empty
      worn = NO_STYLE;
    }
  }
  return parts.join("") + NO_STYLE;
}

// Nothing but a background. Half of a wide character that was written over has the look of what was written.
function isErased(cell) {
  return cell.getChars() === "" && cell.getWidth() === 1 && cell.getFgColorMode() === 0 && !FLAGS.some((is) => cell[is]());
}

// The cursor at its place. Behind the last column it comes by writing that column again.
function place(term, shown, buffer, top = 0) {
  const at = (x) => `${CSI}${buffer.y - top + 1};${x + 1}H`;
  if (buffer.x < term.cols) return at(buffer.x);
  const line = shown.getLine(buffer.ybase + buffer.y);
  const x = line.getCell(term.cols - 1).getWidth() === 0 ? term.cols - 2 : term.cols - 1;
  const cell = line.getCell(x);
  return `${at(x)}${style(cell)}${cell.getChars() || " "}`;
}

function saved(buffer) {
  const isDefault = buffer.savedX === 0 && buffer.savedY === 0 && style(buffer.savedCurAttrData) === NO_STYLE;
  if (isDefault && !isGraphics(buffer.savedCharset)) return "";
  const set = isGraphics(buffer.savedCharset) ? ["\x1b(0", "\x1b(B"] : ["", ""];
  const row = Math.max(0, buffer.savedY - buffer.ybase);
  return `${CSI}${row + 1};${buffer.savedX + 1}H${style(buffer.savedCurAttrData)}${set[0]}\x1b7${set[1]}${NO_STYLE}`;
}

const isGraphics = (set) => Boolean(set?.["`"]);

// A cell's look, or the pen's, as one sequence that needs nothing of what was before.
function style(of) {
  const words = [0];
  if (of.isBold()) words.push(1);
  if (of.isDim()) words.push(2);
  if (of.isItalic()) words.push(3);
  if (of.isUnderline()) words.push(of.extended?.underlineStyle > 1 ? `4:${of.extended.underlineStyle}` : 4);
  if (of.isBlink()) words.push(5);
  if (of.isInverse()) words.push(7);
  if (of.isInvisible()) words.push(8);
  if (of.isStrikethrough()) words.push(9);
  if (of.isOverline()) words.push(53);
  colour(words, of.getFgColorMode(), of.getFgColor(), 30, 38);
  colour(words, of.getBgColorMode(), of.getBgColor(), 40, 48);
  return `${CSI}${words.join(";")}m`;
}

function colour(words, mode, value, first, wide) {
  if (mode === 0) return;
  if (mode === PALETTE_16) words.push(value < 8 ? first + value : first + 60 + value - 8);
  else if (mode === PALETTE_16 * 2) words.push(wide, 5, value);
  else words.push(wide, 2, (value >> 16) & 255, (value >> 8) & 255, value & 255);
}

function tabStops(buffer, cols) {
  let isUsual = true;
  for (let x = 0; x < cols; x += 1) isUsual &&= Boolean(buffer.tabs[x]) === (x % 8 === 0);
  if (isUsual) return "";
  return `${CSI}3g${Object.keys(buffer.tabs).filter((x) => x < cols && buffer.tabs[x]).map((x) => `${CSI}${Number(x) + 1}G\x1bH`).join("")}`;
}

function modes(term) {
  const { coreService, coreMouseService, _charsetService } = term._core;
  const { decPrivateModes } = coreService;
  const parts = [];
  _charsetService._charsets.forEach((set, g) => { if (isGraphics(set)) parts.push(`\x1b${"()*+"[g]}0`); });
  if (_charsetService.glevel) parts.push(["", "\x0e", "\x1bn", "\x1bo"][_charsetService.glevel]);
  const on = {
    "?1": decPrivateModes.applicationCursorKeys, "?45": decPrivateModes.reverseWraparound, "?1004": decPrivateModes.sendFocus,
    "?2004": decPrivateModes.bracketedPasteMode, "?2026": decPrivateModes.synchronizedOutput, 20: term.options.convertEol,
    "?6": decPrivateModes.origin,
  };
  for (const [name, isOn] of Object.entries(on)) if (isOn) parts.push(`${CSI}${name}h`);
  if (decPrivateModes.applicationKeypad) parts.push("\x1b=");
  if (!decPrivateModes.wraparound) parts.push(`${CSI}?7l`);
  const mouse = { x10: 9, vt200: 1000, drag: 1002, any: 1003 }[term.modes.mouseTrackingMode];
  if (mouse) parts.push(`${CSI}?${mouse}h`);
  const told = { SGR: 1006, SGR_PIXELS: 1016 }[coreMouseService.activeEncoding];
  if (told) parts.push(`${CSI}?${told}h`);
  const shape = { block: 2, underline: 4, bar: 6 }[decPrivateModes.cursorStyle];
  if (shape) parts.push(`${CSI}${shape - (decPrivateModes.cursorBlink ? 1 : 0)} q`);
  if (coreService.isCursorHidden) parts.push(`${CSI}?25l`);
  return parts.join("");
}
