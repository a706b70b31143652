// The feed of the run list: one socket that says which runs have changed, through every cut. It has no cursor: whoever
// comes back reloads what it shows. docs/PROTOCOL.md section 8.
//
// onConnection(state, {retry_at}): connecting | live | reconnecting | restarting | polling | offline | signed_out |
// forbidden. The last two are final.

const FIRST_DELAY_MS = 500;
const LAST_DELAY_MS = 20_000;
const DEAD_MS = 35_000; // nothing heard, not even a heartbeat
const POLL_AFTER_FAILURES = 3; // connections in a row that never got as far as `ready`

export class Feed {
  constructor({ url, onReady, onChanged, onConnection }) {
    Object.assign(this, { url, onReady, onChanged, onConnection });
    this.socket = this.timer = null;
    this.tries = this.failures = 0;
    this.isOver = false;
    setInterval(() => this.socket && Date.now() - this.heardAt > DEAD_MS && this.#drop(), 5000);
    addEventListener("online", () => this.retry());
    addEventListener("offline", () => { this.#leave(); this.onConnection("offline"); });
    document.addEventListener("visibilitychange", () => document.hidden || this.retry());
  }

  open() {
    if (this.isOver || this.socket) return;
    clearTimeout(this.timer);
    if (this.failures < POLL_AFTER_FAILURES) this.onConnection("connecting");
    this.isReady = false;
    this.closing = null;
    this.heardAt = Date.now();
    const socket = (this.socket = new WebSocket(this.url, ["app.v1"]));
    socket.onmessage = (event) => { if (socket === this.socket) this.#take(JSON.parse(event.data)); };
    socket.onclose = (event) => { if (socket === this.socket) this.#lost(event.code); };
  }

  retry() {
    this.tries = 0;
    this.open();
  }

  #take(frame) {
    this.heardAt = Date.now();
    if (frame.type === "ready") {
      this.isReady = true;
      this.tries = this.failures = 0;
      this.onConnection("live");
      this.onReady();
    } else if (frame.type === "run.changed") this.onChanged(frame.run, frame.version);
    else if (frame.type === "closing") this.closing = frame;
  }

  #lost(closeCode) {
    this.socket = null;
    const code = this.closing?.code ?? closeCode;
    if (code >= 4500 && code < 5000) {
      this.isOver = true;
      this.onConnection(code === 4501 ? "signed_out" : "forbidden");
      return;
    }
    if (!this.isReady) this.failures += 1;
    const ceiling = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** ++this.tries);
    const asked = (this.closing?.retry_after ?? 0) * 1000;
    const delay = Math.max(asked, FIRST_DELAY_MS + Math.random() * (ceiling - FIRST_DELAY_MS));
    this.timer = setTimeout(() => this.open(), delay);
    const isPolling = this.failures >= POLL_AFTER_FAILURES;
    const state = isPolling ? "polling" : code === 4030 || code === 1012 ? "restarting" : "reconnecting";
    this.onConnection(state, { retry_at: Date.now() + delay });
  }

  #drop() {
    this.#leave();
    this.#lost(1006);
  }

  #leave() {
    const socket = this.socket;
    this.socket = null; // its later events are nobody's
    socket?.close();
    clearTimeout(this.timer);
  }
}
