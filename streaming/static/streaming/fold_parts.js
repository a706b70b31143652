// What the rules of the fold are made of, with the names of runs/fold_parts.py: reading a field of any JSON value, and
// changing one item of a list. Nothing is changed in place but the view that is being made.

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
export const text = (value) => (typeof value === "string" ? value : null);
export const count = (value) => (Number.isSafeInteger(value) && value >= 0 ? value : null);
export const own = (data, key) => (Object.hasOwn(data, key) ? data[key] : null);
export const pick = (data, ...keys) => Object.fromEntries(keys.map((key) => [key, own(data, key)]));

// The first seq that a frame stands for: its own, or where a compacted text begins; null if it has none.
export function firstSeq(frame) {
  const seq = count(frame.seq);
  if (seq === null || frame.type !== "text.compacted" || !isObject(frame.data)) return seq;
  const begin = count(own(frame.data, "from_seq"));
  return begin !== null && begin > 0 && begin <= seq ? begin : seq;
}

export function find(items, key, value) {
  return value === null ? -1 : items.findLastIndex((item) => item[key] === value);
}

export function change(view, part, key, value, changed) {
  const i = find(view[part], key, value);
  if (i >= 0) view[part] = view[part].with(i, { ...view[part][i], ...changed });
}

export function put(view, part, key, item) {
  if (item[key] === null) return;
  const i = find(view[part], key, item[key]);
  view[part] = i < 0 ? [...view[part], item] : view[part].with(i, item);
}

export function stepOf(view, stepId) {
  const i = find(view.steps, "step_id", stepId);
  return i < 0 ? null : view.steps[i];
}

export function changeTool(view, stepId, changed) {
  const step = stepOf(view, stepId);
  if (step?.tool) change(view, "steps", "step_id", stepId, { tool: { ...step.tool, ...changed } });
}
