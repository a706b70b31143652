// A WebSocket for tests in Node 20: text frames, close codes, and an Authorization header, which browsers cannot send.
import net from "node:net";
import { randomBytes } from "node:crypto";

export class TestWebSocket {
  static headers = {};
  static all = [];

  constructor(url, protocols = []) {
    const at = new URL(url);
    this.readyState = 0;
    this.sent = [];
    this.code = 1006;
    this.buffer = Buffer.alloc(0);
    TestWebSocket.all.push(this);
    const lines = [`GET ${at.pathname}${at.search} HTTP/1.1`, `Host: ${at.host}`, "Upgrade: websocket",
      "Connection: Upgrade", "Sec-WebSocket-Version: 13", `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
      `Sec-WebSocket-Protocol: ${protocols.join(", ")}`,
      ...Object.entries(TestWebSocket.headers).map(([name, value]) => `${name}: ${value}`)];
    this.net = net.connect(Number(at.port), at.hostname, () => this.net.write(lines.join("\r\n") + "\r\n\r\n"));
    this.net.on("data", (data) => this.feed(data));
    this.net.on("error", () => {});
    this.net.on("close", () => this.closed());
  }

  closed() {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code: this.code });
  }

  feed(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    if (this.readyState === 0) {
      const end = this.buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      if (!this.buffer.toString("latin1", 0, 12).endsWith("101")) return this.net.destroy();
      this.buffer = this.buffer.subarray(end + 4);
      this.readyState = 1;
      this.onopen?.({});
    }
    while (this.buffer.length >= 2) {
      let [n, at] = [this.buffer[1] & 127, 2];
      if (n === 126) { if (this.buffer.length < 4) return; n = this.buffer.readUInt16BE(2); at = 4; }
      else if (n === 127) { if (this.buffer.length < 10) return; n = Number(this.buffer.readBigUInt64BE(2)); at = 10; }
      if (this.buffer.length < at + n) return;
      const op = this.buffer[0] & 15;
      const payload = this.buffer.subarray(at, at + n);
      this.buffer = this.buffer.subarray(at + n);
      if (op === 1) this.onmessage?.({ data: payload.toString() });
      else if (op === 8) { this.code = n >= 2 ? payload.readUInt16BE(0) : 1005; this.net.end(); this.closed(); }
      else if (op === 9) this.frame(10, payload);
    }
  }

  frame(op, payload) {
    const n = payload.length;
    const head = n < 126 ? [0x80 | op, 0x80 | n] : [0x80 | op, 0xfe, n >> 8, n & 255];
    this.net.write(Buffer.concat([Buffer.from(head), Buffer.alloc(4), payload]));
  }

  send(text) {
    this.sent.push(JSON.parse(text));
    this.frame(1, Buffer.from(text));
  }

  close() { this.net.destroy(); this.closed(); }
}
