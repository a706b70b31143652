// What a screen reader hears while a run goes on: steps that begin, changes of status, texts. Not the stream itself.
// How texts are said is the reader's choice, kept in this browser: at their end, sentence by sentence, or not.

import { setText } from "./dom.js";
import { asText } from "./present.js";
import { fill, gettext } from "./words.js";

const GAP_MS = 1500; // several changes at once are said as one
const MOST_CHARS = 300;
const KEY = "outlive-announce";
const SENTENCES = /[\s\S]*(?:[.!?]["”')\]]*\s|[。！？]["”』」）]*|\n)/; // up to the end of the last whole one

export class Announcer {
  // choice: the <select> with end, sentence, off.
  constructor(region, words, choice = null) {
    Object.assign(this, { region, words, choice });
    this.before = null;
    this.pending = [];
    this.timer = null;
    this.said = new Map(); // message id: how much of its text was said
    if (!choice) return;
    const kept = read();
    if ([...choice.options].some((option) => option.value === kept)) choice.value = kept;
    choice.addEventListener("change", () => keep(choice.value));
  }

  show(view) {
    const before = this.before;
    this.before = view;
    if (!before || before === view) {
      for (const message of view.messages) this.said.set(message.message_id, message.text.length);
      return;
    }
    const known = new Set(before.steps.map((s) => s.step_id));
    for (const step of view.steps) {
      if (!known.has(step.step_id)) this.say(fill(gettext("Step begins: %(name)s."), { name: asText(step.name) }));
    }
    this.#sayTexts(before, view);
    if (view.status !== before.status) this.say(`${this.words.status[view.status]?.text ?? ""}.`);
  }

  say(text) {
    this.pending.push(text);
    this.timer ??= setTimeout(() => {
      this.timer = null;
      setText(this.region, this.pending.splice(0).join(" "));
    }, GAP_MS);
  }

  #sayTexts(before, view) {
    const how = this.choice?.value ?? "end";
    const open = new Set(before.messages.filter((m) => m.state === "open").map((m) => m.message_id));
    for (const message of view.messages) {
      const id = message.message_id;
      const from = this.said.get(id) ?? 0;
      const isDone = message.state === "final";
      if (how === "sentence" && (message.state === "open" || (isDone && open.has(id)))) {
        const rest = message.text.slice(from);
        const whole = isDone ? rest : SENTENCES.exec(rest)?.[0] ?? "";
        this.said.set(id, from + whole.length);
        if (whole.trim()) this.say(whole.trim());
      } else if (how === "end" && isDone && open.has(id)) this.say(message.text.slice(0, MOST_CHARS));
    }
  }
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function keep(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // It holds for this page.
  }
}
