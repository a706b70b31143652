// The Stop button, enhanced: a form that works without this module. States: idle, sending, unsure (Retry stop), asked.
//
// A repeated click is never an error. When the POST fails or times out, the state of the run is asked by a GET: the
// stop may have been recorded although its answer was lost.

import { setHidden, setText, slot } from "./dom.js";
import { isSlow, stopLine } from "./stop_words.js";
import { serverNow } from "./times.js";
import { gettext } from "./words.js";

const POST_MS = 8000;
const GET_MS = 5000;
const CANCELLABLE = ["queued", "running", "waiting"];
const STOPPING = ["cancel_requested", "cancelling"];

export class StopControl {
  constructor({ form, line, alert, stateUrl, words, people, onAsked }) {
    Object.assign(this, { form, line, alert, stateUrl, words, people, onAsked });
    this.button = form?.querySelector("#stop") ?? null;
    this.mode = "idle";
    this.isLate = new URLSearchParams(location.search).get("stop") === "late";
    this.view = null;
    form?.addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    document.addEventListener("keydown", (event) => this.#onKey(event));
    // The line changes with time: a stop that is slower than usual is said to be.
    setInterval(() => this.view && STOPPING.includes(this.view.status) && this.#paint(), 1000);
  }

  // The view has changed, by whatever tab or device.
  show(view) {
    const before = this.view?.status;
    this.view = view;
    if (!CANCELLABLE.includes(view.status)) {
      if (this.mode !== "idle" && ["completed", "failed"].includes(view.status) && !view.cancel) this.isLate = true;
      this.mode = "idle";
    }
    if (before && before !== view.status && view.terminal_at) this.#announceEnd(view);
    this.#paint();
  }

  async ask() {
    if (!this.button || this.mode === "sending" || this.mode === "asked" || STOPPING.includes(this.view?.status)) return;
    this.mode = "sending";
    this.onAsked(true);
    this.#paint();
    try {
      const answer = await fetch(this.form.action, {
        method: "POST", body: new URLSearchParams(new FormData(this.form)), headers: { Accept: "application/json" },
        signal: AbortSignal.timeout(POST_MS), redirect: "error",
      });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.#asked(await answer.json());
    } catch {
      await this.#lookUp();
    }
  }

  async #lookUp() {
    this.mode = "unsure";
    this.#paint();
    try {
      const answer = await fetch(this.stateUrl, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(GET_MS), redirect: "error" });
      if (!answer.ok) return;
      const state = await answer.json();
      if (state.cancel_id || state.is_ended) this.#asked(state);
    } catch {
      // Still unsure: the button says Retry stop, and a person decides.
    }
  }

  #asked(state) {
    this.isLate = Boolean(state.too_late) || (state.is_ended && !state.cancel_id);
    this.mode = "asked";
    this.#paint();
  }

  #onKey(event) {
    if (event.key !== "." || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    if (!this.button || this.form.hidden) return;
    event.preventDefault();
    this.ask();
  }

  #paint() {
    const status = this.view?.status;
    if (!status) return;
    const isOpen = CANCELLABLE.includes(status);
    const isStopping = STOPPING.includes(status) || (isOpen && (this.mode === "sending" || this.mode === "asked"));
    document.body.classList.toggle("has-stop", Boolean(this.button) && (isOpen || isStopping));
    let line = stopLine(this.view, { words: this.words, people: this.people, now: serverNow(), isLate: this.isLate });
    if (isOpen && this.mode === "sending") line = gettext("Sending your stop request…");
    if (isOpen && this.mode === "unsure") {
      line = gettext("We could not confirm that the server got your request. The run may still be working.");
    }
    if (isOpen && this.mode === "asked") line = gettext("Your stop is recorded. No new step will start.");
    setText(this.line, line);
    setHidden(this.line, !line);
    this.line.classList.toggle("warn", this.mode === "unsure" || isSlow(this.view, serverNow()));
    if (!this.button) return;
    this.#paintButton(isOpen, isStopping);
  }

  #paintButton(isOpen, isStopping) {
    // The focus stays on the button while it says Stopping…, so it is never disabled, only aria-disabled.
    if (isStopping) this.button.setAttribute("aria-disabled", "true");
    else this.button.removeAttribute("aria-disabled");
    const label = isStopping
      ? isSlow(this.view, serverNow()) ? gettext("Stopping, slower than usual") : gettext("Stopping…")
      : this.mode === "unsure" ? gettext("Retry stop") : gettext("Stop");
    setText(slot(this.button, "label"), label);
    const hadFocus = document.activeElement === this.button;
    setHidden(this.form, !(isOpen || isStopping));
    if (hadFocus && this.form.hidden) {
      this.line.tabIndex = -1;
      this.line.focus({ preventScroll: true });
    }
    if (this.mode === "unsure") setText(this.alert, this.line.textContent);
  }

  #announceEnd(view) {
    const word = this.words.status[view.status]?.text ?? "";
    const line = stopLine(view, { words: this.words, people: this.people, now: serverNow(), isLate: this.isLate });
    if (view.cancel || this.isLate) setText(this.alert, `${word}. ${line}`);
  }
}
