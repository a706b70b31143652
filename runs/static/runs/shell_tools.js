// What a person does to the picture, not to the shell: find, leave by the keyboard, have it read aloud.

import { setHidden, setText } from "./dom.js";
import { gettext } from "./words.js";

const ALOUD = "outlive-terminal-aloud";
const byId = (id) => document.getElementById(id);

export function bindTools({ term, search }, root) {
  const finder = byId("finder"), needle = byId("needle"), find = byId("find");
  const look = (isForward) => {
    const isFound = !needle.value || (isForward ? search.findNext(needle.value) : search.findPrevious(needle.value));
    setText(byId("found"), isFound ? "" : gettext("Not found"));
  };
  const open = (isOpen) => {
    setHidden(finder, !isOpen);
    find.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) needle.select();
    (isOpen ? needle : term).focus();
    if (!isOpen) search.clearDecorations();
  };
  find.addEventListener("click", () => open(finder.hidden));
  finder.addEventListener("submit", (event) => { event.preventDefault(); look(false); });
  byId("find-next").addEventListener("click", () => look(true));
  byId("find-close").addEventListener("click", () => open(false));
  finder.addEventListener("keydown", (event) => { if (event.key === "Escape") open(false); });

  term.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true;
    const key = event.key.toLowerCase();
    if (key !== "l" && key !== "f") return true;
    if (event.type === "keydown") {
      event.preventDefault();
      if (key === "f") open(true);
      else leave(root);
    }
    return false;
  });

  const aloud = byId("read-aloud");
  aloud.checked = localStorage.getItem(ALOUD) === "1";
  const apply = () => { term.options.screenReaderMode = aloud.checked; };
  aloud.addEventListener("change", () => { localStorage.setItem(ALOUD, aloud.checked ? "1" : "0"); apply(); });
  apply();
}

// To the first control that is there, so that Tab goes on from it through the page.
function leave(root) {
  const controls = [...root.querySelectorAll(".shell-foot input, .shell-bar button")];
  controls.find((control) => control.checkVisibility())?.focus();
}
