// Small hands for the DOM: slots of a clone, icons, and changes that touch only what differs.

const icons = document.body.dataset.icons;

export function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

export function clone(templateId) {
  return document.getElementById(templateId).content.firstElementChild.cloneNode(true);
}

export function slot(root, name) {
  return root.querySelector(`:scope [data-slot="${name}"]`);
}

// An element inside is a difference too: a running time that says the same goes on running.
export function setText(element, text) {
  if (element && (element.textContent !== text || element.firstElementChild)) element.textContent = text;
}

export function setHidden(element, isHidden) {
  if (element && element.hidden !== isHidden) element.hidden = isHidden;
}

// A slot that is hidden while it has nothing to say.
export function setSlot(element, text, tone = null) {
  if (!element) return;
  setHidden(element, !text);
  setText(element, text);
  if (tone !== null) element.dataset.tone = tone;
}

export function setIcon(holder, name, tone = null, title = null) {
  const use = holder?.querySelector("use");
  const href = `${icons}#${name}`;
  if (use && use.getAttribute("href") !== href) use.setAttribute("href", href);
  if (tone !== null) holder.dataset.tone = tone;
  if (title !== null) holder.title = title;
}

export function icon(name, classes = "") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", classes ? `icon ${classes}` : "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${icons}#${name}`);
  svg.append(use);
  return svg;
}

export function element(tag, { text = "", classes = "", tone = null } = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (classes) made.className = classes;
  if (tone) made.dataset.tone = tone;
  return made;
}
