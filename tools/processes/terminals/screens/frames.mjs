// The words of a terminal's ward, as ../frames.py has them: a kind (1 byte), the length of the body (4, little endian).

export function packJson(kind, body) {
  const text = Buffer.from(JSON.stringify(body));
  const head = Buffer.alloc(5);
  head.write(kind, 0, "latin1");
  head.writeUInt32LE(text.length, 1);
  return Buffer.concat([head, text]);
}

// Puts what comes over a stream socket together to frames: [kind, body] each.
export class Reader {
  #begun = Buffer.alloc(0);

  feed(data) {
    this.#begun = this.#begun.length ? Buffer.concat([this.#begun, data]) : data;
    const frames = [];
    let at = 0;
    while (this.#begun.length - at >= 5) {
      const end = at + 5 + this.#begun.readUInt32LE(at + 1);
      if (end > this.#begun.length) break;
      frames.push([String.fromCharCode(this.#begun[at]), this.#begun.subarray(at + 5, end)]);
      at = end;
    }
    this.#begun = this.#begun.subarray(at);
    return frames;
  }
}

export const offsetOf = (body, at = 0) => Number(body.readBigUInt64LE(at));
