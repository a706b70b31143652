// The parts of the run page that only the server makes: answer forms and previews of artifacts. They are fetched when
// the view says that there is one more, or one less.

import { showTimes } from "./times.js";

const AGAIN_MS = 5000;

export class Extras {
  constructor({ url, firstView, onPlaced }) {
    this.url = url;
    this.onPlaced = onPlaced;
    this.have = wantedOf(firstView);
    this.view = firstView;
    this.isFetching = false;
  }

  show(view) {
    this.view = view;
    if (!this.isFetching && wantedOf(view) !== this.have) this.#fetch(wantedOf(view));
  }

  async #fetch(wanted) {
    this.isFetching = true;
    try {
      const answer = await fetch(this.url, { redirect: "error" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      place("answers", page, "[data-answer]", "answer");
      place("artifacts", page, "[data-artifact]", "artifact");
      this.have = wanted;
      this.isFetching = false;
      this.onPlaced();
      this.show(this.view);
    } catch {
      setTimeout(() => { this.isFetching = false; this.show(this.view); }, AGAIN_MS);
    }
  }
}

function wantedOf(view) {
  const open = view.questions.filter((q) => q.state === "open").map((q) => q.question_id);
  return JSON.stringify([open, view.artifacts.map((a) => a.artifact_id)]);
}

// Put new ones in and take closed ones out; one that is there stays, because somebody may be typing in it.
function place(id, page, selector, key) {
  const holder = document.getElementById(id);
  const fresh = new Map([...page.querySelectorAll(selector)].map((e) => [e.dataset[key], e]));
  for (const old of [...holder.children]) if (!fresh.has(old.dataset[key])) old.remove();
  const there = new Set([...holder.children].map((e) => e.dataset[key]));
  for (const [name, made] of fresh) if (!there.has(name)) holder.append(document.adoptNode(made));
  showTimes(holder);
}
