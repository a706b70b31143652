// Paints the view of a run onto its page, at most each 100 ms, and touches only what changed.

import { StepPair } from "./cards.js";
import { element, icon, setHidden, setIcon, setSlot, setText, slot } from "./dom.js";
import { attemptText, errorText, showEffects, showResult, showStep, usageText, verifyingText } from "./present.js";

const PAINT_MS = 100;
const STOPPING = ["cancel_requested", "cancelling"];

export class Painter {
  constructor(root, { words, onPainted }) {
    this.root = root;
    this.words = words;
    this.onPainted = onPainted;
    this.pairs = new Map();
    this.painted = new Map();
    this.isStopAsked = false; // set on the click, before anybody answered: the text stands still at once
    this.timer = null;
    this.last = 0;
    this.stream = null; // the attempt that was painted last
    this.steps = document.getElementById("steps");
    this.cards = document.getElementById("cards");
    for (const line of this.steps.children) {
      const id = line.dataset.step;
      this.pairs.set(id, new StepPair(id, { line, card: document.getElementById(`card-${id}`) }));
    }
  }

  // Paint soon: at once when the last painting is long ago, else when its 100 ms are over.
  show(view) {
    this.view = view;
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.last = performance.now();
      this.paint(this.view);
    }, Math.max(0, this.last + PAINT_MS - performance.now()));
  }

  paint(view) {
    this.view = view;
    if (view.stream_id !== this.stream) {
      this.stream = view.stream_id;
      this.isStopAsked = false; // a stop of the attempt before is no stop of this one
    }
    const isEnded = view.terminal_at !== null;
    const frozen = !isEnded && (this.isStopAsked || STOPPING.includes(view.status));
    this.#paintHead(view);
    this.#paintSteps(view, frozen);
    this.#paintReceipt(view);
    setHidden(document.getElementById("nothing-yet"), view.steps.length > 0 || isEnded);
    const result = document.getElementById("result");
    const [text, rest] = showResult(view);
    setSlot(slot(result, "text"), text);
    setText(slot(result, "rest"), rest);
    const details = result.querySelector("details");
    if (details.hidden && rest && !text) details.open = true; // else the card would be empty
    setHidden(details, !rest);
    setHidden(result, !text && !rest);
    for (const button of document.querySelectorAll("#talk [data-while-live]")) setHidden(button, isEnded);
    setHidden(document.getElementById("asks"), !view.questions.some((q) => q.state === "open"));
    this.onPainted(view);
  }

  #paintHead(view) {
    const word = this.words.status[view.status] ?? this.words.status.queued;
    for (const badge of this.root.querySelectorAll(".badge[data-status]")) {
      if (badge.dataset.status === view.status) continue;
      badge.dataset.status = view.status;
      badge.dataset.tone = word.tone;
      badge.replaceChildren(icon(word.icon, word.icon === "running" ? "spins" : ""), element("span", { text: word.text }));
    }
    this.root.dataset.status = view.status;
    const title = view.title || view.agent || "";
    setText(slot(this.root, "title"), title);
    document.title = `${word.text} · ${title} · Outlive`;
    setSlot(slot(this.root, "usage"), usageText(view.usage));
    setSlot(slot(this.root, "attempt"), attemptText(view));
    setHidden(document.getElementById("deadline"), view.terminal_at !== null);
    const error = document.getElementById("run-error");
    setText(error.lastElementChild, errorText(view.error));
    setHidden(error, !view.error);
    const verifying = document.getElementById("verifying");
    setText(slot(verifying, "text"), verifyingText(view));
    setHidden(verifying, view.status !== "needs_reconciliation");
  }

  #paintSteps(view, frozen) {
    const seen = new Set();
    const cutAt = view.cancel ? view.terminal_at : null;
    for (const step of view.steps) {
      seen.add(step.step_id);
      const shown = showStep(step, { view, words: this.words });
      // The fold shares what did not change, so equal parts mean that nothing of this step is new.
      const parts = [step, frozen, cutAt, shown.outcome, ...shown.messages, ...shown.questions];
      const before = this.painted.get(step.step_id);
      if (before && before.length === parts.length && before.every((part, i) => part === parts[i])) continue;
      this.painted.set(step.step_id, parts);
      this.#pair(step.step_id).paint(shown, { step, words: this.words, frozen, cutAt });
    }
    for (const [id, pair] of this.pairs) {
      if (seen.has(id)) continue;
      pair.line.remove();
      pair.card.remove();
      this.pairs.delete(id);
      this.painted.delete(id);
    }
    setText(slot(document.getElementById("timeline"), "count"), String(view.steps.length));
  }

  #pair(id) {
    let pair = this.pairs.get(id);
    if (!pair) {
      pair = new StepPair(id, {});
      this.pairs.set(id, pair);
      this.steps.append(pair.line);
      this.cards.append(pair.card);
    }
    return pair;
  }

  #paintReceipt(view) {
    const receipt = document.getElementById("receipt");
    const effects = view.cancel?.effects ?? view.cancel?.pending ?? null;
    if (this.effects === effects) return;
    this.effects = effects;
    const lines = showEffects(effects, this.words);
    setHidden(receipt, !lines.length);
    slot(receipt, "effects").replaceChildren(...lines.map(receiptLine));
  }
}

function receiptLine(effect) {
  const line = element("li");
  const sign = element("span", { tone: effect.word.tone });
  sign.append(icon(effect.word.icon));
  line.append(sign, element("span", { text: effect.name }), element("span", { classes: "chip", text: effect.word.text, tone: effect.word.tone }));
  if (effect.proof) line.append(element("span", { classes: "proof", text: effect.proof }));
  return line;
}
