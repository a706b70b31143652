// The screen of one terminal: attached to its ward, and now and then written to a file, so that another keeper can go on.

import fs from "node:fs";
import net from "node:net";
import path from "node:path";

import { Emulator } from "./emulator.mjs";
import { offsetOf, packJson, Reader } from "./frames.mjs";

const MOST_WAITING_BYTES = 512 * 1024; // more is left to the ward, which lets the program wait
const KEEP_EVERY_MS = 1000;
const LAST_SCREENS_MS = 24 * 3_600_000; // of terminals that have ended

export class Keeper {
  #folder;
  #file;
  #socket;
  #emulator = null;
  #first; // settles once it is known what the terminal is
  #reader = new Reader();
  #keptAt = -1;
  #timer;

  constructor(folder, digest) {
    this.#folder = folder;
    this.#file = path.join(folder, `${digest}.screen`);
    const kept = readKept(this.#file);
    this.over = new Promise((resolve) => { this.#socket = this.#attach(digest, kept, resolve); });
    this.#timer = setInterval(() => this.#keep(), KEEP_EVERY_MS);
  }

  async snapshot() {
    await this.#first;
    return this.#emulator.snapshot();
  }

  async text() {
    await this.#first;
    return { text: this.#emulator.text(), exact: this.#emulator.isExact };
  }

  leave() {
    clearInterval(this.#timer);
    this.#socket.destroy();
  }

  // The last screen of a terminal that is not there any more.
  static last(folder, digest) {
    return readKept(path.join(folder, `${digest}.screen`));
  }

  static forgetOld(folder) {
    for (const name of fs.readdirSync(folder).filter((n) => n.endsWith(".screen"))) {
      const file = path.join(folder, name);
      if (Date.now() - (fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > LAST_SCREENS_MS) fs.rmSync(file, { force: true });
    }
  }

  #attach(digest, kept, end) {
    const socket = net.connect(path.join(this.#folder, `${digest}.sock`));
    socket.on("connect", () => socket.write(packJson("H", { role: "screen", from: kept?.offset ?? 0 })));
    this.#first = new Promise((resolve, reject) => {
      socket.on("data", (data) => {
        for (const [kind, body] of this.#reader.feed(data)) this.#take(kind, body, kept, resolve);
        if (this.#emulator?.waits > MOST_WAITING_BYTES) socket.pause();
      });
      socket.on("close", async () => {
        clearInterval(this.#timer);
        reject(new Error("There is no screen of this terminal."));
        if (this.#emulator) {
          await this.#emulator.settled();
          await this.#keep();
          this.#emulator.close();
        }
        end();
      });
    });
    this.#first.catch(() => {}); // whoever asks sees it
    socket.on("error", () => {});
    return socket;
  }

  #take(kind, body, kept, begun) {
    if (kind === "W") {
      const welcome = JSON.parse(body);
      if (welcome.refused) return this.#socket.destroy();
      const last = kept && kept.offset === welcome.from ? kept : null; // else it is of another terminal of that key
      const painted = last && Buffer.concat([Buffer.from(last.data), Buffer.from(last.tail, "base64")]);
      const { rows, cols } = last ?? welcome;
      this.#emulator = new Emulator({
        rows, cols, painted, from: last?.offset ?? welcome.from, isExact: last?.exact ?? welcome.from === 0,
        onPainted: () => this.#painted(),
      });
      // When it changed meanwhile is not known; before what comes now is the likeliest.
      if (rows !== welcome.rows || cols !== welcome.cols) this.#emulator.resize({ rows: welcome.rows, cols: welcome.cols });
      begun();
    } else if (kind === "O") this.#emulator.feed(offsetOf(body), body.subarray(8));
    else if (kind === "K") this.#emulator.skip(offsetOf(body, 8));
    else if (kind === "N") {
      const news = JSON.parse(body);
      if (news.rows) this.#emulator.resize(news);
    }
  }

  #painted() {
    if (this.#socket.isPaused() && this.#emulator.waits < MOST_WAITING_BYTES / 2) this.#socket.resume();
  }

  // Write the screen down where it has changed and rests: in a flood the ring has moved on before anybody could use it.
  async #keep() {
    const { offset, received } = this.#emulator ?? { offset: -1, received: -1 };
    if (offset === this.#keptAt || (offset !== received && !this.#socket.destroyed)) return;
    this.#keptAt = offset;
    const kept = { ...(await this.#emulator.snapshot()), text: this.#emulator.text() };
    try {
      fs.writeFileSync(`${this.#file}.new`, JSON.stringify(kept), { mode: 0o600 });
      fs.renameSync(`${this.#file}.new`, this.#file);
    } catch (error) {
      console.error(`screens.not_kept ${error.code ?? error}`);
    }
  }
}

function readKept(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch {
    return null; // there is none, or it was cut: it begins anew
  }
}
