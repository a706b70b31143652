// What every page does: times in the reader's zone, copying, forms that are sent once, small menus, file drops.

import { gettext } from "./words.js";
import { keepTimes } from "./times.js";

keepTimes();
for (const element of document.querySelectorAll("[data-no-script]")) element.hidden = true;
for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (button) await copy(button);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.activeElement?.closest("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches?.("[data-submit-on-change]")) event.target.form.requestSubmit();
});

// A second click while the first answer is on its way sends nothing. The server would give the same run anyway.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-once]") || event.defaultPrevented) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  for (const button of form.querySelectorAll("button")) button.setAttribute("aria-busy", "true");
});

// The key of a form belongs to its place in the history: Back may fetch the page anew, and must not find a new key,
// or pressing Start there would start a second run.
for (const input of document.querySelectorAll("input[data-key]")) {
  const kept = history.state?.formKey;
  if (kept && input.dataset.key === "fresh") input.value = kept;
  else history.replaceState({ ...history.state, formKey: input.value }, "");
}

// Back brings the page as it was left: its forms may be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  }
});

for (const drop of document.querySelectorAll("[data-drop]")) {
  const input = drop.querySelector("input[type=file]");
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
  });
}

async function copy(button) {
  const text = document.querySelector(button.dataset.copy)?.textContent ?? "";
  const use = button.querySelector("use");
  const before = use?.getAttribute("href");
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https there is no clipboard: select the text, so that the keyboard can copy it.
    getSelection()?.selectAllChildren(document.querySelector(button.dataset.copy));
    return;
  }
  use?.setAttribute("href", `${document.body.dataset.icons}#check`);
  const label = button.getAttribute("aria-label");
  button.setAttribute("aria-label", gettext("Copied"));
  setTimeout(() => { use?.setAttribute("href", before); button.setAttribute("aria-label", label); }, 1500);
}
