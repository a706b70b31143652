// The banner of a shell that nobody is in control of: a countdown that only shows; the server decides.

import { setHidden, setText, slot } from "./dom.js";
import { serverNow } from "./times.js";
import { countdown, gettext } from "./words.js";
import { graceText } from "./shell_words.js";

const LAST_SECONDS = 60;
const csrfToken = () => /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie)?.[1] ?? "";

export class Grace {
  constructor(note, { form, notify, announce, title }) {
    Object.assign(this, { note, notify, announce, title });
    this.until = null;
    this.isTold = false;
    this.ticker = setInterval(() => this.#paint(), 1000);
    form?.addEventListener("submit", (event) => { event.preventDefault(); this.#keep(form); });
    notify?.addEventListener("click", async () => {
      await Notification.requestPermission();
      this.#paint();
    });
  }

  // until: ISO text, null where nothing runs out.
  show(until) {
    const at = until ? Date.parse(until) : null;
    if (at !== this.until) this.isTold = false;
    this.until = at;
    this.#paint();
  }

  #paint() {
    setHidden(this.note, this.until === null);
    if (this.until === null) {
      if (document.title !== this.title && document.title.startsWith("⏳")) document.title = this.title;
      return;
    }
    const seconds = (this.until - serverNow()) / 1000;
    setText(slot(this.note, "text"), graceText(seconds));
    setHidden(this.notify, globalThis.Notification?.permission !== "default");
    if (seconds > LAST_SECONDS) return;
    document.title = `⏳ ${countdown(seconds)} · ${this.title}`;
    if (this.isTold) return;
    this.isTold = true;
    this.announce(graceText(seconds));
    if (globalThis.Notification?.permission === "granted") new Notification(this.title, { body: graceText(seconds), tag: "outlive-grace" });
  }

  async #keep(form) {
    const body = new URLSearchParams(new FormData(form));
    if (csrfToken()) body.set("csrfmiddlewaretoken", csrfToken());
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" }, redirect: "manual" });
      if (answer.type !== "opaqueredirect" && !answer.ok) throw new Error(`status ${answer.status}`);
      this.announce(gettext("The shell is kept for an hour."));
    } catch {
      this.announce(gettext("That could not be recorded. Try again."));
      form.submit(); // the plain way shows what is wrong
    }
  }
}
