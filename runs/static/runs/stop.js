// The Stop button, enhanced: a form that works without this module.
// Modes: idle, sending, asked, unsure (Retry stop), signed_out and refused (for certain nothing was recorded).
//
// A repeated click is never an error. When the POST fails or times out, the state of the run is asked by a GET: the
// stop may have been recorded although its answer was lost.

import { setHidden, setText, slot } from "./dom.js";
import { isSlow, stopLine } from "./stop_words.js";
import { serverNow } from "./times.js";
import { gettext } from "./words.js";

const POST_MS = 8000;
const GET_MS = 5000;
const BEHIND_MS = 3000; // a stream that has not heard of a recorded stop by then is dead, or nearly
const CANCELLABLE = ["queued", "running", "waiting"];
const STOPPING = ["cancel_requested", "cancelling"];
const NOT_DONE = ["unsure", "signed_out", "refused"];

// The form's own token is void after a new sign-in in another tab; the cookie's never is.
const csrfToken = () => /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? "";

export class StopControl {
  // onAsked(isAsked): the text stands still from the click on; onBehind(): the page's stream has not heard what the
  // server answered, so it is not to be trusted any more.
  constructor({ form, line, alert, stateUrl, words, people, onAsked, onBehind }) {
    Object.assign(this, { form, line, alert, stateUrl, words, people, onAsked, onBehind });
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
    if (this.view && this.view.stream_id !== view.stream_id) {
      this.mode = "idle"; // a new attempt: the stop was asked of the one before
      this.isLate = false;
    }
    this.view = view;
    if (!CANCELLABLE.includes(view.status)) {
      const isAsked = ["sending", "asked", "unsure"].includes(this.mode);
      if (isAsked && ["completed", "failed"].includes(view.status) && !view.cancel) this.isLate = true;
      this.mode = "idle";
    }
    if (before && before !== view.status && view.terminal_at) this.#announceEnd(view);
    this.#paint();
  }

  async ask() {
    if (!this.button || this.mode === "sending" || this.mode === "asked" || STOPPING.includes(this.view?.status)) return;
    this.mode = "sending";
    this.stream = this.view?.stream_id;
    this.onAsked(true);
    this.#paint();
    try {
      const answer = await fetch(this.form.action, {
        method: "POST", body: this.#body(), headers: { Accept: "application/json" },
        signal: AbortSignal.timeout(POST_MS), redirect: "manual",
      });
      if (answer.type === "opaqueredirect") return this.#notDone("signed_out"); // to the sign-in page
      if ([403, 404].includes(answer.status)) return this.#notDone("refused");
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.#asked(await answer.json());
    } catch {
      await this.#lookUp();
    }
  }

  #body() {
    const body = new URLSearchParams(new FormData(this.form));
    const token = csrfToken();
    if (token) body.set("csrfmiddlewaretoken", token);
    return body;
  }

  #notDone(mode) {
    this.mode = mode;
    this.onAsked(false);
    this.#paint();
  }

  async #lookUp() {
    this.mode = "unsure";
    this.#paint();
    try {
      const answer = await fetch(this.stateUrl, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(GET_MS), redirect: "error" });
      const state = answer.ok ? await answer.json() : {};
      if (state.cancel_id || state.is_ended) return this.#asked(state);
    } catch {
      // Still unsure: the button says Retry stop, and a person decides.
    }
    if (this.mode === "unsure") this.onAsked(false); // what goes on may be seen to go on
  }

  #asked(state) {
    if (this.view?.stream_id !== this.stream) return; // the answer came when a new attempt had begun
    this.isLate = Boolean(state.too_late) || (state.is_ended && !state.cancel_id);
    this.mode = "asked";
    this.#paint();
    setTimeout(() => this.mode === "asked" && this.onBehind(), BEHIND_MS);
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
    const hasEnded = this.mode === "asked" && this.isLate; // the server says so; our stream has yet to hear of it
    const isStopping = STOPPING.includes(status) || (isOpen && ["sending", "asked"].includes(this.mode) && !hasEnded);
    document.body.classList.toggle("has-stop", Boolean(this.button) && (isOpen || isStopping));
    let line = stopLine(this.view, { words: this.words, people: this.people, now: serverNow(), isLate: this.isLate });
    if (isOpen && this.mode === "sending") line = gettext("Sending your stop request…");
    if (isOpen && this.mode === "unsure") {
      line = gettext("We could not confirm that the server got your request. The run may still be working.");
    }
    if (isOpen && this.mode === "signed_out") line = gettext("You are signed out, so nothing was stopped. Sign in and press Stop again.");
    if (isOpen && this.mode === "refused") line = gettext("Your stop was refused: this run is not yours to stop any more. It goes on.");
    if (isOpen && this.mode === "asked") {
      line = hasEnded
        ? gettext("It finished before your stop took effect.")
        : gettext("Your stop is recorded. No new step will start.");
    }
    setText(this.line, line);
    setHidden(this.line, !line);
    this.line.classList.toggle("warn", NOT_DONE.includes(this.mode) || isSlow(this.view, serverNow()));
    if (!this.button) return;
    this.#paintButton(isOpen && !hasEnded, isStopping);
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
    if (NOT_DONE.includes(this.mode)) setText(this.alert, this.line.textContent);
  }

  #announceEnd(view) {
    const word = this.words.status[view.status]?.text ?? "";
    const line = stopLine(view, { words: this.words, people: this.people, now: serverNow(), isLate: this.isLate });
    if (view.cancel || this.isLate) setText(this.alert, `${word}. ${line}`);
  }
}
