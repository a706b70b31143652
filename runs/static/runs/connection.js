// The pill that says how fresh the page is. It never covers Stop, and Stop works whatever it says.
//
// States (of ../streaming/live.js and of feed.js): connecting | catching_up | live | trimmed | reconnecting | restarting |
// polling | offline | signed_out | forbidden | ended.

import { setHidden, setIcon, setText, slot } from "./dom.js";
import { fill, gettext, writeSeconds } from "./words.js";

const QUIET_MS = 2000; // a reconnect that is quicker than this is nobody's business
const GOOD = ["live", "trimmed", "catching_up"];
const SOON = ["connecting", "reconnecting", ""]; // what is said only when it takes longer than that
const SAID = ["offline", "polling", "restarting", "signed_out", "forbidden", "reconnecting", "trimmed"]; // aloud, once each

export class ConnectionPill {
  // announce(text): says it to a screen reader; the pill itself is no live region, it counts seconds.
  constructor(pill, { onRetry, announce = () => {} }) {
    Object.assign(this, { pill, announce });
    this.state = this.said = "";
    this.isEnded = this.wasGood = false;
    this.quietUntil = Date.now() + QUIET_MS;
    slot(pill, "retry").addEventListener("click", onRetry);
  }

  // Whether the page believes to be in touch.
  get isGood() {
    return GOOD.includes(this.state);
  }

  // An ended run is as fresh as it will ever be: nothing needs to say that it is live.
  end(isEnded) {
    if (this.isEnded === isEnded) return;
    this.isEnded = isEnded;
    if (this.isGood || SOON.includes(this.state)) setHidden(this.pill, isEnded);
  }

  // detail: what the state adds (retry_at in ms, done and total, lag_ms).
  show(state, detail = {}) {
    clearTimeout(this.timer);
    clearInterval(this.ticker);
    if (this.isGood && !GOOD.includes(state)) this.quietUntil = Date.now() + QUIET_MS;
    this.state = state;
    this.wasGood ||= this.isGood;
    const wait = SOON.includes(state) ? this.quietUntil - Date.now() : 0;
    if (wait > 0) this.timer = setTimeout(() => this.#paint(state, detail), wait);
    else this.#paint(state, detail);
  }

  #paint(state, detail) {
    const shown = state === "connecting" && this.wasGood ? "reconnecting" : state;
    const { text, tone, sign, has } = describe(shown, detail);
    setHidden(this.pill, !text || (shown === "live" && this.isEnded));
    setText(slot(this.pill, "text"), text);
    setIcon(this.pill, sign ?? "dot", tone);
    this.pill.dataset.state = shown;
    for (const name of ["retry", "sign-in", "why"]) setHidden(slot(this.pill, name), !has?.includes(name));
    if (detail.retry_at && has?.includes("retry")) {
      this.ticker = setInterval(() => setText(slot(this.pill, "text"), describe(shown, detail).text), 1000);
    }
    this.#say(shown);
  }

  #say(state) {
    if (state === "live" && this.said && this.said !== "trimmed") {
      this.said = "";
      if (!this.isEnded) this.announce(gettext("Live again."));
    }
    if (!SAID.includes(state) || this.said === state) return;
    this.said = state;
    this.announce(describe(state, {}).text);
  }
}

function nextTry(detail) {
  const left = Math.max(0, Math.ceil(((detail.retry_at ?? 0) - Date.now()) / 1000));
  return left ? ` ${fill(gettext("Next try in %(n)s s."), { n: left })}` : "";
}

function describe(state, detail) {
  switch (state) {
    case "live": {
      const seconds = (detail.lag_ms ?? 0) / 1000;
      const text = seconds >= 0.5 ? fill(gettext("Live · %(time)s behind"), { time: writeSeconds(seconds) }) : gettext("Live");
      return { text, tone: "green" };
    }
    case "connecting": return { text: gettext("Connecting…"), tone: "grey" };
    case "catching_up": {
      const { done = 0, total = 0 } = detail;
      const text = total ? fill(gettext("Catching up: %(done)s of %(total)s events"), { done, total }) : gettext("Catching up…");
      return { text, tone: "blue" };
    }
    case "reconnecting": return {
      text: gettext("Reconnecting… Runs go on at the server.") + nextTry(detail), tone: "amber", has: ["retry"],
    };
    case "restarting": return {
      text: gettext("The server restarts. The page comes back by itself.") + nextTry(detail), tone: "amber", has: ["retry"],
    };
    case "offline": return { text: gettext("Offline. Runs go on at the server."), tone: "amber", sign: "warning" };
    case "polling": return {
      text: gettext("No live connection; refreshing every 5 s."), tone: "amber", sign: "warning", has: ["why"],
    };
    case "trimmed": return { text: gettext("Older detail was trimmed; the page was rebuilt from the saved state."), tone: "grey" };
    case "signed_out": return { text: gettext("Signed out."), tone: "red", sign: "warning", has: ["sign-in"] };
    case "forbidden": return { text: gettext("You may no longer watch this."), tone: "red", sign: "warning" };
    default: return { text: "", tone: "grey" };
  }
}
