// Choosing runs of the list to stop them together: the bar with their number. Without this module the form works too.

import { setHidden, setText, slot } from "./dom.js";
import { fill, gettext, ngettext } from "./words.js";

export class Choice {
  constructor() {
    document.addEventListener("change", (event) => {
      if (event.target.matches?.("#choose-all")) for (const box of boxes()) box.checked = event.target.checked;
      if (event.target.matches?.("#choose-all, input[name=run]")) this.show();
    });
    this.show();
  }

  // The tick of a row goes over to its newer self, while that one can still be stopped.
  keep(row, fresh) {
    const box = fresh.querySelector("input[name=run]");
    if (box) box.checked = row.querySelector("input[name=run]")?.checked ?? false;
  }

  show() {
    const bar = document.getElementById("stop-many");
    if (!bar) return;
    const chosen = boxes().filter((box) => box.checked).length;
    setHidden(bar, chosen === 0);
    setText(slot(bar, "label"), fill(ngettext("Stop %(n)s run", "Stop %(n)s runs", chosen), { n: chosen }));
    const all = document.getElementById("choose-all");
    if (!all) return;
    setHidden(all, boxes().length === 0);
    all.setAttribute("aria-label", gettext("Choose all runs of this page that can be stopped"));
    all.checked = chosen > 0 && chosen === boxes().length;
    all.indeterminate = chosen > 0 && chosen < boxes().length;
  }
}

const boxes = () => [...document.querySelectorAll("#run-rows input[name=run]")];
