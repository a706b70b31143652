// Following the end of the output: only while the reader is at the bottom, else a button says that there is more.

import { setHidden } from "./dom.js";

const NEAR = 120; // px from the end that still count as "at the bottom"

export class Follower {
  constructor({ end, jump, isLive }) {
    this.jump = jump;
    this.isLive = isLive;
    this.end = end;
    this.isAtEnd = this.#isNear();
    this.height = end.scrollHeight;
    addEventListener("scroll", () => this.#look(), { passive: true });
    jump.addEventListener("click", () => {
      this.isAtEnd = true;
      this.#toEnd();
      setHidden(jump, true);
    });
  }

  // Call after painting.
  painted() {
    const height = this.end.scrollHeight;
    const grew = height > this.height;
    this.height = height;
    if (!grew || !this.isLive()) return setHidden(this.jump, this.jump.hidden || this.#isNear());
    const selected = getSelection();
    if (this.isAtEnd && (selected?.isCollapsed ?? true)) this.#toEnd();
    else if (!this.#isNear()) setHidden(this.jump, false);
  }

  #look() {
    this.isAtEnd = this.#isNear();
    if (this.isAtEnd) setHidden(this.jump, true);
  }

  #isNear() {
    return this.end.getBoundingClientRect().bottom - innerHeight < NEAR;
  }

  // At once: on a smooth way down the next words would find the reader not at the end, and stop following.
  #toEnd() {
    const below = this.end.getBoundingClientRect().bottom - innerHeight + 24;
    if (below > 0) scrollBy({ top: below, behavior: "instant" });
  }
}
