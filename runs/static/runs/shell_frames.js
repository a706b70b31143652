// The binary frames of a shell's socket: channel (1 byte), offset (8 bytes, big endian), bytes. And parts of what waits.

export const INPUT = 0, OUTPUT = 1, SCREEN = 2;
const HEAD = 9;

export function pack(channel, offset, bytes) {
  const frame = new Uint8Array(HEAD + bytes.length);
  const view = new DataView(frame.buffer);
  view.setUint8(0, channel);
  view.setBigUint64(1, BigInt(offset));
  frame.set(bytes, HEAD);
  return frame;
}

export function unpack(buffer) {
  const view = new DataView(buffer);
  return { channel: view.getUint8(0), offset: Number(view.getBigUint64(1)), bytes: new Uint8Array(buffer, HEAD) };
}

// At most so many bytes of the chunks, from an offset on.
export function slice(chunks, from, most) {
  const found = [];
  let room = most;
  for (const chunk of chunks) {
    if (from >= chunk.length) {
      from -= chunk.length;
      continue;
    }
    const part = chunk.subarray(from, from + room);
    found.push(part);
    room -= part.length;
    from = 0;
    if (!room) break;
  }
  if (found.length === 1) return found[0];
  const joined = new Uint8Array(most - room);
  let at = 0;
  for (const part of found) { joined.set(part, at); at += part.length; }
  return joined;
}
