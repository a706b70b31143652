// UTF-8 as a terminal's output comes: cut anywhere.

// How many bytes of the data are whole characters. xterm.js loses some that come to it in two pieces (the second and third
// byte of a joiner apart), so what has not ended yet waits for its end.
export function wholeLength(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return back < length ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

export function join(first, second) {
  if (!first.length) return second;
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
