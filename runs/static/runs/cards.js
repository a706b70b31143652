// One step on the page: its line in the timeline and its card. Markup comes from the page's <template> elements.

import { clone, element, setHidden, setIcon, setSlot, setText, slot } from "./dom.js";
import { showTimes } from "./times.js";
import { clock, fill, gettext } from "./words.js";
import { pretty } from "./present.js";

export class StepPair {
  // Takes over what the server rendered, or makes it new.
  constructor(stepId, { line, card }) {
    this.line = line ?? clone("t-timeline");
    this.card = card ?? clone("t-card");
    this.line.dataset.step = this.card.dataset.step = stepId;
    this.line.querySelector("a").href = `#card-${stepId}`;
    this.card.id = `card-${stepId}`;
    this.texts = new Map();
    this.raw = null;
    const details = this.card.querySelector("[data-raw]");
    setHidden(details, false);
    this.isNew = !card;
    details.addEventListener("toggle", () => this.#showRaw());
  }

  // Paint the shown step. `frozen`: a stop was asked for, so texts stand still until the run has ended.
  paint(shown, { step, words, frozen, cutAt }) {
    this.raw = step;
    for (const part of [this.line, this.card]) {
      part.dataset.state = shown.state;
      setText(slot(part, "name"), shown.name);
      setText(slot(part, "state"), shown.stateWord.text);
      setSlot(slot(part, "effect"), shown.effect?.text ?? "", shown.effect?.tone ?? "");
      setSlot(slot(part, "outcome"), shown.outcome?.text ?? "", shown.outcome?.tone ?? "");
      this.#paintTook(slot(part, "took"), shown);
    }
    this.line.dataset.depth = shown.depth;
    setText(slot(this.line, "kind"), shown.kindWord.text);
    setIcon(slot(this.line, "state_icon"), shown.stateWord.icon, shown.stateWord.tone, shown.stateWord.text);
    this.card.dataset.kind = shown.kind;
    setSlot(slot(this.card, "reused"), shown.reused);
    this.card.setAttribute("aria-busy", String(shown.state === "open"));
    setIcon(slot(this.card, "kind_icon"), shown.kindWord.icon, shown.kindWord.tone, shown.kindWord.text);
    setSlot(slot(this.card, "error"), shown.error, shown.errorTone);
    this.#paintChild(slot(this.card, "child"), shown);
    this.#paintFacts(shown);
    this.#paintQuestions(shown.questions, words);
    this.#paintMessages(shown.messages, frozen, cutAt);
    this.#showRaw();
  }

  #paintTook(holder, shown) {
    if (!shown.startedAt) return setText(holder, shown.took);
    if (holder.querySelector("time")?.dateTime === shown.startedAt) return;
    const time = element("time");
    time.dateTime = shown.startedAt;
    time.dataset.style = "since";
    holder.replaceChildren(time);
    showTimes(holder);
  }

  #paintChild(link, shown) {
    setSlot(link, shown.childTitle);
    setSlot(slot(this.card, "taken"), shown.taken);
    if (shown.childId) link.href = shown.shellId ? `/shells/${shown.shellId}/` : `/runs/${shown.childId}/`;
  }

  #paintFacts(shown) {
    const holder = slot(this.card, "facts");
    const more = slot(this.card, "more");
    if (this.isNew) more.open = shown.isOpened;
    this.isNew = false;
    setText(slot(this.card, "hint"), shown.hint);
    for (const line of holder.querySelectorAll("[data-fact]")) {
      const text = shown.facts[line.dataset.fact] ?? "";
      setHidden(line, !text);
      setText(line.lastElementChild, text);
    }
    setHidden(more, !Object.values(shown.facts).some(Boolean));
  }

  #paintQuestions(questions, words) {
    const holder = slot(this.card, "questions");
    setHidden(holder, !questions.length);
    for (const question of questions) {
      let block = holder.querySelector(`[data-question="${CSS.escape(question.question_id)}"]`);
      if (!block) {
        block = element("section", { classes: "question-block" });
        block.dataset.question = question.question_id;
        block.append(element("p", { classes: "prompt", text: question.prompt ?? "" }), element("p", { classes: "small muted" }));
        holder.append(block);
      }
      if (block.dataset.state === question.state) continue;
      block.dataset.state = question.state;
      setText(block.children[1], words.question[question.state] ?? words.question.shut);
      if (question.state === "answered" && !block.querySelector(".answer-value")) {
        block.append(element("p", { classes: "answer-value", text: pretty(question.value) }));
      }
    }
  }

  #paintMessages(messages, frozen, cutAt) {
    const holder = slot(this.card, "messages");
    setHidden(holder, !messages.length);
    const wanted = new Set(messages.map((m) => m.message_id));
    for (const old of [...holder.querySelectorAll("[data-message]")]) {
      if (!wanted.has(old.dataset.message)) {
        this.texts.delete(old.dataset.message);
        old.remove();
      }
    }
    for (const message of messages) this.#paintMessage(holder, message, frozen, cutAt);
  }

  #paintMessage(holder, message, frozen, cutAt) {
    let entry = this.texts.get(message.message_id);
    if (!entry) {
      let block = holder.querySelector(`[data-message="${CSS.escape(message.message_id)}"]`);
      if (!block) {
        block = clone("t-message");
        block.dataset.message = message.message_id;
        holder.append(block);
      }
      const words = block.querySelector(".words");
      if (!words.firstChild) words.append("");
      entry = { block, node: words.firstChild };
      this.texts.set(message.message_id, entry);
    }
    entry.block.classList.toggle("frozen", frozen);
    if (frozen && message.state === "open") return;
    const before = entry.node.data;
    if (message.text !== before) {
      // Only the new end is added, so that a selection in the text stays while it grows.
      if (message.text.startsWith(before)) entry.node.appendData(message.text.slice(before.length));
      else entry.node.data = message.text;
    }
    entry.block.dataset.state = message.state;
    if (message.state === "interrupted" && cutAt) {
      const label = fill(gettext("Interrupted by stop at %(at)s. Not a final answer."), { at: clock(cutAt) });
      setText(entry.block.querySelector(".label span"), label);
    }
  }

  #showRaw() {
    const details = this.card.querySelector("[data-raw]");
    if (details.open) setText(details.querySelector("pre"), JSON.stringify(this.raw, null, 2));
  }
}
