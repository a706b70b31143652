// The parts of the run page that only the server makes: answer forms, previews of artifacts, the form of a retry, and what
// waits in the conversation.
// They are fetched when the view says that there is one more, or one less.

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
      place("retry", page, "[data-retry]", "retry");
      place("talk", page, "[data-talk]", "talk");
      goToWhatWasSent();
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
  const settled = view.terminal_at !== null && view.status !== "needs_reconciliation";
  return JSON.stringify([open, view.artifacts.map((a) => a.artifact_id), view.stream_id, view.terminal_at, settled]);
}

// Who sent a message from here waits for its run: it opens by itself once it is there.
function goToWhatWasSent() {
  const sent = new URLSearchParams(location.search).get("sent");
  const link = sent && document.querySelector(`#talk a[data-came-from="${CSS.escape(sent)}"]`);
  if (link) location.replace(link.href);
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
