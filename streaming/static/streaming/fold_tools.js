// What tools make of the view, as runs/fold_tools.py: a call in its step, its operation, and what the receipt of a stop
// says of it.

import { change, changeTool, find, isObject, own, pick, put, stepOf, text } from "./fold_parts.js";

// Whether a step ended because of a stop: of its call, or of the run that it began.
export const wasStopped = (step) => step?.tool?.stopped === true || step?.child?.status === "cancelled";

export function toolStarted(view, data, stepId) {
  const tool = {
    ...pick(data, "tool", "effect", "arguments", "operation_key"), operation_id: null,
    progress: null, ok: null, stopped: false, value: null, error: null, proof: null,
  };
  change(view, "steps", "step_id", stepId, { tool });
}

export function toolDispatched(view, data, stepId) {
  const ids = pick(data, "operation_id", "operation_key");
  changeTool(view, stepId, ids);
  const tool = stepOf(view, stepId)?.tool?.tool ?? null;
  put(view, "operations", "operation_id", {
    operation_id: text(data.operation_id), operation_key: ids.operation_key, tool, state: "dispatched",
  });
}

export function toolProgress(view, data, stepId) {
  changeTool(view, stepId, { progress: own(data, "data") });
}

export function toolResult(view, data, stepId) {
  const word = wordOfResult(data);
  const known = { ok: word === "succeeded", stopped: data.stopped === true || word === "stopped" };
  changeTool(view, stepId, { ...known, ...pick(data, "value", "error", "proof") });
  const step = stepOf(view, stepId);
  if (step?.tool) {
    change(view, "operations", "operation_id", text(step.tool.operation_id), { state: word });
  }
}

// What the result of a tool makes of its operation. Older events say "stopped" by their error's code alone.
function wordOfResult(data) {
  if (data.ok === true) return "succeeded";
  const code = isObject(data.error) ? own(data.error, "code") : null;
  if (code === "permit_expired" || code === "not_happened") return "refuted";
  return data.stopped === true || code === "stopped" ? "stopped" : "failed";
}

export function toolUnknown(view, data, stepId) {
  changeTool(view, stepId, { ok: null, error: own(data, "message") });
  change(view, "operations", "operation_id", text(data.operation_id), { state: "unknown" });
}

export function operationSettled(view, data) {
  const [state, id] = [text(data.outcome) || "unknown", text(data.operation_id)];
  change(view, "operations", "operation_id", id, { state });
  settleEffect(view, id, state, text(data.source));
}

// Says in the receipt of a stop what has become of an operation that was in doubt.
function settleEffect(view, id, state, source) {
  const outcome = new Map([["confirmed", "committed"], ["refuted", "not_started"]]).get(state);
  const effects = view.cancel?.effects;
  if (!outcome || id === null || !Array.isArray(effects)) return;
  const isIt = (one) => isObject(one) && own(one, "operation_id") === id;
  view.cancel = { ...view.cancel, effects: effects.map((one) => (isIt(one) ? { ...one, outcome, proof: source } : one)) };
}

// What the receipt of a stop says of an operation that had no answer of its own in the stream.
const STATE_OF_OUTCOME = new Map([
  ["stopped", "stopped"], ["finished_first", "succeeded"], ["committed", "succeeded"], ["not_started", "refuted"],
]);

// Takes from the receipt of a stop what became of operations that are still on their way.
export function settleRest(view, effects) {
  for (const one of Array.isArray(effects) ? effects.filter(isObject) : []) {
    const [id, state] = [text(own(one, "operation_id")), STATE_OF_OUTCOME.get(own(one, "outcome"))];
    const i = find(view.operations, "operation_id", id);
    if (state && i >= 0 && view.operations[i].state === "dispatched") {
      change(view, "operations", "operation_id", id, { state });
    }
  }
}

export function compensation(view, data) {
  const undo = text(data.state) || "unknown";
  change(view, "operations", "operation_id", text(data.operation_id), { undo });
}

// What a run's end names as unknown.
export function openOutcomes(view, operations) {
  for (const one of Array.isArray(operations) ? operations.filter(isObject) : []) {
    change(view, "operations", "operation_id", text(one.operation_id), { state: "unknown" });
  }
}
