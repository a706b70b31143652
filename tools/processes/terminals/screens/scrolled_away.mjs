// In a flood of plain lines all but the last ones scroll out of sight: painting them would cost the time of the program.

const LF = 0x0a;
const CR = 0x0d;
const TAB = 0x09;

// Gives the data without the lines in its middle that nobody can see afterwards, wherever the cursor was before. keptLines:
// as many as fill the scrollback and twice the screen. To be called where no sequence or character is unfinished and the
// whole screen scrolls; only what begins the data and holds neither control characters nor sequences is looked at.
export function withoutWhatScrollsAway(data, keptLines) {
  const end = endOfPlain(data);
  let lines = 0;
  for (let at = end - 1; at > 0; at -= 1) {
    if (data[at] !== LF) continue;
    lines += 1;
    // From here on the cursor begins at the left; the line break itself is kept, and puts it there.
    if (lines > keptLines && data[at - 1] === CR) return data.subarray(at - 1);
  }
  return data;
}

function endOfPlain(data) {
  for (let at = 0; at < data.length; at += 1) {
    const byte = data[at];
    // 0xc2 may begin a control character of the second kind.
    if ((byte < 0x20 && byte !== LF && byte !== CR && byte !== TAB) || byte === 0x7f || byte === 0xc2) return at;
  }
  return data.length;
}
