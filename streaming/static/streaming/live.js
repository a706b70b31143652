// live.js: follows one run over a WebSocket, through every cut, and keeps its view. No dependency, no build step.
//
//   import { follow } from ".../live.js";
//   const live = follow({
//     runId,                        // "run_…"
//     url,                          // ws(s)://…/ws/v1/runs/<id>/?tail=1&role=viewer|control ; `after` is added here
//     view,                         // what the page was rendered with; without one the server sends a snapshot
//     onView(view, changes),        // the folded view; changes = {rebuilt, frames}: the events applied since the last
//                                   // call; rebuilt: the view is another one (a snapshot), draw everything anew
//     onConnection(state, detail),  // see below
//     eventsUrl, timing,            // where pages are polled if not at /api/v1; other times than TIMING, in ms
//   });
//   live.retry();                   // try again now       live.close();   // stop for good
//
// States: connecting | catching_up {done, total} | live {lag_ms} | trimmed (live; an older part came as a snapshot) |
// reconnecting {retry_at} | restarting {retry_at} | polling {retry_at} | offline | ended | signed_out | forbidden.
// The last three are final. Times are ms; detail.server_time (ISO) comes with the first state after each connect.
//
// It only reads: acknowledgements and signs of life apart, nothing is ever sent. docs/PROTOCOL.md is normative.

import { firstSeq, fold } from "./fold.js";

const TIMING = {
  first_delay: 500, last_delay: 20_000, // between connections, with full jitter
  tick: 4_000, // keepalive; a control connection counts as lost after 10 s without a sign of life
  opening: 15_000, // until `ready`
  dead: 35_000, // nothing heard, not even a heartbeat
  poll: 5_000, trimmed: 10_000,
};
const POLL_AFTER_FAILURES = 3; // connections in a row that never got as far as `ready`
const LONGEST_ASKED = 3_600; // s, of a server that asks to come back in a year; timers know no number above 2^31 ms
const ACK_EVENTS = 64;
const ACK_CHARS = 65_536;

export function follow(options) {
  const live = new Live(options);
  live.connect();
  return { close: () => live.close(), retry: () => live.retry() };
}

class Live {
  constructor({ runId, url, view = null, eventsUrl, timing, onView = () => {}, onConnection = () => {} }) {
    Object.assign(this, { url, view, onView, onConnection, timing: { ...TIMING, ...timing } });
    this.eventsUrl = eventsUrl ?? `/api/v1/runs/${runId}/events`;
    this.isOver = false;
    this.failures = 0; // connections in a row without `ready`
    this.attempt = 0; // connections in a row without progress
    this.hasPages = true; // the last page that was asked for came: what is polled is fresh
    this.clockOffset = 0; // server minus here, ms
    this.socket = this.timer = null;
    this.ticker = setInterval(() => this.tick(), this.timing.tick);
    this.listeners = [
      [globalThis, "online", () => this.retry()],
      [globalThis, "offline", () => this.goOffline()],
      [globalThis.document, "visibilitychange", () => this.wake()],
    ].filter(([target]) => target?.addEventListener);
    for (const [target, name, act] of this.listeners) target.addEventListener(name, act);
  }

  // The place in the stream is the view's: whatever is in the view was applied, and nothing else was.
  get cursor() {
    return this.view?.seq ? `${this.view.stream_id}:${this.view.seq}` : null;
  }

  say(state, detail = {}) {
    this.onConnection(state, detail);
  }

  connect() {
    if (this.isOver || this.socket) return;
    clearTimeout(this.timer);
    if (this.failures < POLL_AFTER_FAILURES) this.say("connecting");
    const url = new URL(this.url);
    if (this.cursor) url.searchParams.set("after", this.cursor);
    else url.searchParams.set("snapshot", "1");
    this.closing = null;
    this.unacked = { events: 0, chars: ACK_CHARS }; // the first message is acknowledged: flow control from the start
    this.parts = [];
    this.isReady = this.isCaughtUp = false;
    this.heardAt = Date.now();
    const socket = (this.socket = new WebSocket(url, ["app.v1"]));
    socket.onmessage = (event) => { if (socket === this.socket) this.take(event.data); };
    socket.onclose = (event) => { if (socket === this.socket) this.lost(event.code); };
  }

  take(text) {
    this.heardAt = Date.now();
    const message = parse(text);
    if (message === null) this.drop();
    else if (Array.isArray(message)) this.apply(message, text.length);
    else this.control(message);
  }

  apply(frames, chars) {
    const fresh = [];
    const rebuilt = this.view === null;
    for (const frame of frames) {
      const isHere = !this.view?.stream_id || this.view.stream_id === frame.stream_id;
      const known = this.view?.seq ?? 0;
      if (isHere && frame.seq <= known) continue;
      if (!isHere || firstSeq(frame) !== known + 1) return this.drop(); // a hole is never skipped: come back with the cursor
      this.view = fold(this.view, frame);
      fresh.push(frame);
    }
    if (!fresh.length) return;
    this.attempt = 0;
    this.unacked.events += fresh.length;
    this.unacked.chars += chars;
    if (this.unacked.events >= ACK_EVENTS || this.unacked.chars >= ACK_CHARS) this.ack();
    this.onView(this.view, { rebuilt, frames: fresh });
    if (this.isCaughtUp) this.sayLive(fresh.at(-1).ts);
    else if (this.isReady) this.sayCatchingUp();
  }

  control(frame) {
    if (frame.type === "ready") {
      this.isReady = true;
      this.failures = 0;
      this.head = frame.head_seq;
      this.start = this.view?.stream_id === frame.stream_id ? this.view.seq : this.head; // else a snapshot comes
      this.clockOffset = Date.parse(frame.server_time) - Date.now();
      this.sayCatchingUp({ server_time: frame.server_time, role: frame.role });
    } else if (frame.type === "gap") {
      this.noteGap(frame.reason);
    } else if (frame.type === "snapshot") {
      this.snapshot(frame);
    } else if (frame.type === "caught_up") {
      this.isCaughtUp = true;
      this.attempt = 0;
      this.ack();
      this.sayLive();
    } else if (frame.type === "heartbeat") {
      this.send({ type: "keepalive" }); // timers of a hidden tab may run once a minute, answers to messages do not
      if (this.isCaughtUp) this.sayLive();
    } else if (frame.type === "closing") {
      this.closing = frame;
    }
  }

  noteGap(reason) {
    if (reason === "trimmed" || reason === "slow") this.trimmedUntil = Date.now() + this.timing.trimmed;
    this.isCaughtUp = false;
  }

  snapshot(frame) {
    if (frame.part !== this.parts.push(frame.text)) return this.drop(); // the parts of another one
    if (frame.part !== frame.parts) return;
    const view = frame.parts > 1 ? parse(this.parts.join("")) : frame.view;
    this.parts = [];
    if (view === null) return this.drop();
    this.view = view;
    this.start = this.head = view.seq; // nothing before it is sent, and it may be another attempt's
    this.onView(this.view, { rebuilt: true, frames: [] });
  }

  sayCatchingUp(detail = {}) {
    const total = Math.max(0, this.head - this.start);
    const done = Math.max(0, Math.min(total, (this.view?.seq ?? 0) - this.start));
    this.say("catching_up", { done, total, ...detail });
  }

  sayLive(ts = null) {
    const lag = ts === null ? 0 : Math.max(0, Date.now() + this.clockOffset - Date.parse(ts));
    this.say(this.trimmedUntil > Date.now() ? "trimmed" : "live", { lag_ms: lag });
  }

  ack() {
    if (!this.view?.seq) return;
    this.unacked = { events: 0, chars: 0 };
    this.send({ type: "ack", seq: this.view.seq });
  }

  send(frame) {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(frame));
  }

  tick() {
    if (!this.socket) return;
    if (Date.now() - this.heardAt > (this.isReady ? this.timing.dead : this.timing.opening)) return this.drop();
    if (this.unacked.events) this.ack();
    else this.send({ type: "keepalive" });
  }

  wake() {
    if (globalThis.document.hidden) return;
    this.retry();
    this.tick();
  }

  goOffline() {
    this.leave();
    this.say("offline");
  }

  retry() {
    if (this.isOver || this.socket) return;
    this.attempt = 0;
    this.connect();
  }

  drop() {
    this.leave();
    this.lost(1006);
  }

  leave() {
    const socket = this.socket;
    this.socket = null; // its later events are nobody's
    socket?.close();
    clearTimeout(this.timer);
  }

  lost(closeCode) {
    this.socket = null;
    const code = this.closing?.code ?? closeCode;
    if (this.closing?.code === 1000) return this.finish("ended"); // a proxy's 1000 comes without our frame
    if (code === 4501) return this.finish("signed_out");
    if (code >= 4500 && code < 5000) return this.finish("forbidden", { reason: this.closing?.reason });
    if (!this.isReady) this.failures += 1;
    const { first_delay, last_delay } = this.timing;
    const ceiling = Math.min(last_delay, first_delay * 2 ** ++this.attempt);
    const asked = Math.min(Number(this.closing?.retry_after) || 0, LONGEST_ASKED) * 1000;
    const delay = Math.max(asked, first_delay + Math.random() * (ceiling - first_delay));
    this.timer = setTimeout(() => this.connect(), delay);
    const detail = { retry_at: Date.now() + delay };
    if (this.failures >= POLL_AFTER_FAILURES) {
      this.say(this.hasPages ? "polling" : "reconnecting", detail);
      this.poll();
    } else this.say(code === 4030 || code === 1012 ? "restarting" : "reconnecting", detail);
  }

  // Below the socket: a proxy that knows no WebSocket still lets pages of events through.
  async poll() {
    if (this.isPolling) return;
    this.isPolling = true;
    let wantsView = this.cursor === null;
    const goesOn = () => !this.isOver && !this.isReady && this.failures >= POLL_AFTER_FAILURES;
    while (goesOn()) {
      let hasCome = false;
      try {
        const [before, askedForView] = [this.cursor, wantsView];
        const query = wantsView ? "?snapshot=1" : `?after=${encodeURIComponent(this.cursor)}`;
        const options = { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(this.timing.dead) };
        const answer = await fetch(this.eventsUrl + query, options);
        const page = answer.ok || answer.status === 410 ? await answer.json() : null;
        hasCome = page !== null;
        this.notePages(hasCome);
        if (!goesOn()) break; // the socket is back, and further
        wantsView = answer.status === 410; // what follows the cursor is gone, or it is of another attempt
        if (answer.status === 401) this.finish("signed_out");
        else if (answer.status === 403 || answer.status === 404) this.finish("forbidden");
        else if (wantsView) this.noteGap(page.error.details.reason);
        else if (answer.ok) this.applyPage(page);
        // At once only where that goes on: else the same answer would come in a circle.
        if ((wantsView && !askedForView) || (page?.has_more && this.cursor !== before)) continue;
      } catch {
        if (!hasCome) this.notePages(false); // no network, or no server: the next round finds out
      }
      await new Promise((resolve) => setTimeout(resolve, this.timing.poll));
    }
    this.isPolling = false;
  }

  // Say it when polling begins to bring nothing, and when it brings something again.
  notePages(hasPages) {
    if (this.isOver || this.isReady || this.hasPages === hasPages) return;
    this.hasPages = hasPages;
    this.say(hasPages ? "polling" : "reconnecting", { retry_at: Date.now() + this.timing.poll });
  }

  applyPage(page) {
    this.parts = [];
    if (page.snapshot) this.snapshot(page.snapshot);
    this.apply(page.data, 0);
    if (page.is_ended && !page.has_more && !new URL(this.url).searchParams.has("tail")) this.finish("ended");
  }

  finish(state, detail) {
    this.close();
    this.say(state, detail);
  }

  close() {
    this.isOver = true;
    clearInterval(this.ticker);
    for (const [target, name, act] of this.listeners) target.removeEventListener(name, act);
    this.leave();
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
