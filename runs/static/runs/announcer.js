// What a screen reader hears while a run goes on: steps that begin, changes of status, finished texts. Not the stream.

import { setText } from "./dom.js";
import { asText } from "./present.js";
import { fill, gettext } from "./words.js";

const GAP_MS = 1500; // several changes at once are said as one
const MOST_CHARS = 300;

export class Announcer {
  constructor(region, words) {
    this.region = region;
    this.words = words;
    this.before = null;
    this.pending = [];
    this.timer = null;
  }

  show(view) {
    const before = this.before;
    this.before = view;
    if (!before || before === view) return;
    const known = new Set(before.steps.map((s) => s.step_id));
    for (const step of view.steps) {
      if (!known.has(step.step_id)) this.#say(fill(gettext("Step begins: %(name)s."), { name: asText(step.name) }));
    }
    const open = new Set(before.messages.filter((m) => m.state === "open").map((m) => m.message_id));
    for (const message of view.messages) {
      if (message.state === "final" && open.has(message.message_id)) this.#say(message.text.slice(0, MOST_CHARS));
    }
    if (view.status !== before.status) this.#say(`${this.words.status[view.status]?.text ?? ""}.`);
  }

  #say(text) {
    this.pending.push(text);
    this.timer ??= setTimeout(() => {
      this.timer = null;
      setText(this.region, this.pending.splice(0).join(" "));
    }, GAP_MS);
  }
}
