// The pill that says how fresh the page is. It never covers Stop, and Stop works whatever it says.

import { setHidden, setIcon, setText, slot } from "./dom.js";
import { fill, gettext } from "./words.js";

const QUIET_MS = 2000; // a reconnect that is quicker than this is nobody's business

export class ConnectionPill {
  constructor(pill, { onRetry }) {
    this.pill = pill;
    this.state = "";
    this.isEnded = false;
    this.timer = null;
    slot(pill, "retry").addEventListener("click", onRetry);
  }

  // An ended run is as fresh as it will ever be: nothing needs to say that it is live.
  end() {
    if (this.isEnded) return;
    this.isEnded = true;
    if (["live", "connecting", "catching_up"].includes(this.state)) setHidden(this.pill, true);
  }

  // state: the word of streaming/live.js; detail: what it adds (retry_at in ms, done and total, lag in ms).
  show(state, detail = {}) {
    clearTimeout(this.timer);
    clearInterval(this.ticker);
    const wasLive = ["live", "", "connecting"].includes(this.state);
    if (state === "reconnecting" && wasLive) {
      this.timer = setTimeout(() => this.#paint(state, detail), QUIET_MS);
    } else this.#paint(state, detail);
    this.state = state;
  }

  #paint(state, detail) {
    const { text, tone, sign, has } = describe(state, detail);
    setHidden(this.pill, !text || (state === "live" && this.isEnded));
    setText(slot(this.pill, "text"), text);
    setIcon(this.pill, sign ?? "dot", tone);
    for (const name of ["retry", "sign-in", "why"]) setHidden(slot(this.pill, name), has !== name);
    if (state === "reconnecting" && detail.retry_at) {
      this.ticker = setInterval(() => setText(slot(this.pill, "text"), describe(state, detail).text), 1000);
    }
  }
}

function describe(state, detail) {
  switch (state) {
    case "live": {
      const seconds = (detail.lag_ms ?? 0) / 1000;
      const text = seconds >= 0.5 ? fill(gettext("Live · %(n)s s behind"), { n: seconds.toFixed(1) }) : gettext("Live");
      return { text, tone: "green" };
    }
    case "connecting": return { text: gettext("Connecting…"), tone: "grey" };
    case "catching_up": {
      const { done = 0, total = 0 } = detail;
      const text = total ? fill(gettext("Catching up: %(done)s of %(total)s events"), { done, total }) : gettext("Catching up…");
      return { text, tone: "blue" };
    }
    case "reconnecting": {
      const left = Math.max(0, Math.ceil(((detail.retry_at ?? 0) - Date.now()) / 1000));
      const next = left ? fill(gettext("Next try in %(n)s s."), { n: left }) : "";
      return { text: `${gettext("Reconnecting… The run goes on at the server.")} ${next}`.trim(), tone: "amber", has: "retry" };
    }
    case "offline": return { text: gettext("Offline. The run goes on at the server."), tone: "amber" };
    case "polling": return { text: gettext("No live connection; refreshing every 5 s."), tone: "amber", has: "why" };
    case "trimmed": return { text: gettext("Older detail was trimmed; the page was rebuilt from the saved state."), tone: "grey" };
    case "signed_out": return { text: gettext("Signed out."), tone: "red", sign: "warning", has: "sign-in" };
    case "restarting": return { text: gettext("The server restarts. The page comes back by itself."), tone: "amber" };
    case "forbidden": return { text: gettext("You may no longer watch this run."), tone: "red", sign: "warning" };
    case "ended": return { text: "", tone: "grey" };
    default: return { text: "", tone: "grey" };
  }
}
