// The fold: how a log of events becomes the view of a run. The same function as runs/fold.py, whose first lines
// state its rules; tests/runs/test_fold.py holds the two against each other on random logs.
//
//   let view = fold(null, frame1); view = fold(view, frame2); ...
//
// Total: any JSON value is accepted as a frame, nothing throws. Pure: the old view is never changed in place.

export function emptyView() {
  return {
    v: 1, run_id: null, attempt: null, stream_id: null, seq: 0, status: null, agent: null, title: null, input: null,
    steps: [], messages: [], questions: [], operations: [], artifacts: [], cancel: null, waiting: null, result: null,
    error: null, usage: { input_tokens: 0, output_tokens: 0 }, terminal_at: null,
  };
}

export function fold(view, frame) {
  view ??= emptyView();
  if (!isObject(frame) || !counts(view, frame)) return view;
  const next = { ...view, seq: frame.seq };
  if (next.stream_id === null) {
    next.run_id = text(frame.run_id);
    next.stream_id = text(frame.stream_id);
    next.attempt = count(frame.attempt);
  }
  const rule = typeof frame.type === "string" ? RULES.get(frame.type) : undefined;
  if (rule) rule(next, isObject(frame.data) ? frame.data : {}, text(frame.step_id), text(frame.ts));
  return next;
}

export function foldAll(frames, view = null) {
  view ??= emptyView();
  for (const frame of frames) view = fold(view, frame);
  return view;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value) => (typeof value === "string" ? value : null);
const count = (value) => (Number.isSafeInteger(value) && value >= 0 ? value : null);
const own = (data, key) => (Object.hasOwn(data, key) ? data[key] : null);
const pick = (data, ...keys) => Object.fromEntries(keys.map((key) => [key, own(data, key)]));

function counts(view, frame) {
  const seq = count(frame.seq);
  if (seq === null || seq <= view.seq) return false;
  return view.stream_id === null || text(frame.stream_id) === view.stream_id;
}

function find(items, key, value) {
  return value === null ? -1 : items.findLastIndex((item) => item[key] === value);
}

function change(view, part, key, value, changed) {
  const i = find(view[part], key, value);
  if (i >= 0) view[part] = view[part].with(i, { ...view[part][i], ...changed });
}

function put(view, part, key, item) {
  if (item[key] === null) return;
  const i = find(view[part], key, item[key]);
  view[part] = i < 0 ? [...view[part], item] : view[part].with(i, item);
}

function stepOf(view, stepId) {
  const i = find(view.steps, "step_id", stepId);
  return i < 0 ? null : view.steps[i];
}

function changeTool(view, stepId, changed) {
  const step = stepOf(view, stepId);
  if (step?.tool) change(view, "steps", "step_id", stepId, { tool: { ...step.tool, ...changed } });
}

function shutQuestions(view) {
  if (view.questions.some((q) => q.state === "open")) {
    view.questions = view.questions.map((q) => (q.state === "open" ? { ...q, state: "shut" } : q));
  }
}

const become = (status) => (view) => Object.assign(view, { status, waiting: null });

const end = (status) => (view, data, stepId, ts) => {
  Object.assign(view, { status, waiting: null, terminal_at: ts });
  shutQuestions(view);
  if (status === "completed") view.result = own(data, "result");
  else if (status === "failed") view.error = pick(data, "code", "message");
  else if (status === "cancelled") view.cancel = { ...view.cancel, ...pick(data, "reason", "effects") };
  else if (Array.isArray(data.operations)) {
    for (const one of data.operations.filter(isObject)) {
      change(view, "operations", "operation_id", text(one.operation_id), { state: "unknown" });
    }
  }
};

const closeQuestion = (state) => (view, data) => {
  change(view, "questions", "question_id", text(data.question_id), { state, value: own(data, "value") });
};

function runTitled(view, data) {
  view.title = text(data.title);
}

function runCreated(view, data) {
  Object.assign(view, { status: "queued", agent: text(data.agent), input: own(data, "input") });
  runTitled(view, data);
}

function runWaiting(view, data, stepId, ts) {
  Object.assign(view, { status: "waiting", waiting: { ...pick(data, "waiting_for", "wake_at"), since: ts } });
}

function stepStarted(view, data, stepId, ts) {
  const before = stepOf(view, stepId); // a step that was cut is started again under the same id
  put(view, "steps", "step_id", {
    step_id: stepId, ...pick(data, "path", "kind", "name", "effect"), state: "open", started_at: ts,
    finished_at: null, error: null, tool: null, model: null, message_ids: before ? before.message_ids : [],
  });
}

function stepFinished(view, data, stepId, ts) {
  const changed = { state: text(data.state) || "finished", error: own(data, "error"), finished_at: ts };
  change(view, "steps", "step_id", stepId, changed);
}

function model(view, data, stepId) {
  const keys = ["provider", "model", "request_id", "stop_reason", "provider_side", "usage"];
  const known = stepOf(view, stepId)?.model ?? {}; // an end by a supervisor knows only some of them
  const entry = (key) => [key, Object.hasOwn(data, key) ? data[key] : (known[key] ?? null)];
  change(view, "steps", "step_id", stepId, { model: Object.fromEntries(keys.map(entry)) });
}

function textStart(view, data, stepId) {
  const id = text(data.message_id);
  const message = { message_id: id, step_id: stepId, label: text(data.label), text: "", state: "open" };
  put(view, "messages", "message_id", message);
  const step = stepOf(view, stepId);
  if (step && id !== null && !step.message_ids.includes(id)) {
    change(view, "steps", "step_id", stepId, { message_ids: [...step.message_ids, id] });
  }
}

function textDelta(view, data) {
  const i = find(view.messages, "message_id", text(data.message_id));
  const delta = text(data.delta);
  if (i >= 0 && delta && view.messages[i].state === "open") {
    view.messages = view.messages.with(i, { ...view.messages[i], text: view.messages[i].text + delta });
  }
}

function textEnd(view, data) {
  const state = data.final === true ? "final" : data.reason === "superseded" ? "superseded" : "interrupted";
  change(view, "messages", "message_id", text(data.message_id), { state });
}

function toolStarted(view, data, stepId) {
  const tool = {
    ...pick(data, "tool", "effect", "arguments", "operation_key"), operation_id: null,
    progress: null, ok: null, value: null, error: null, proof: null,
  };
  change(view, "steps", "step_id", stepId, { tool });
}

function toolDispatched(view, data, stepId) {
  const ids = pick(data, "operation_id", "operation_key");
  changeTool(view, stepId, ids);
  const tool = stepOf(view, stepId)?.tool?.tool ?? null;
  put(view, "operations", "operation_id", {
    operation_id: text(data.operation_id), operation_key: ids.operation_key, tool, state: "dispatched",
  });
}

function toolProgress(view, data, stepId) {
  changeTool(view, stepId, { progress: own(data, "data") });
}

function toolResult(view, data, stepId) {
  const ok = data.ok === true;
  changeTool(view, stepId, { ok, ...pick(data, "value", "error", "proof") });
  const step = stepOf(view, stepId);
  if (step?.tool) {
    change(view, "operations", "operation_id", text(step.tool.operation_id), { state: ok ? "succeeded" : "failed" });
  }
}

function toolUnknown(view, data, stepId) {
  changeTool(view, stepId, { ok: null, error: own(data, "message") });
  change(view, "operations", "operation_id", text(data.operation_id), { state: "unknown" });
}

function inputRequested(view, data, stepId) {
  put(view, "questions", "question_id", {
    question_id: text(data.question_id), step_id: stepId, ...pick(data, "prompt", "schema", "expires_at"),
    state: "open", value: null,
  });
}

function cancelRequested(view, data, stepId, ts) {
  const keys = ["cancel_id", "reason", "by", "note", "stop_deadline_at", "pending"];
  Object.assign(view, { status: "cancel_requested", waiting: null });
  view.cancel = { ...pick(data, ...keys), requested_at: ts, effects: null };
  shutQuestions(view);
}

function runReconciled(view, data) {
  view.status = text(data.status) || view.status;
}

function operationSettled(view, data) {
  const state = text(data.outcome) || "unknown";
  change(view, "operations", "operation_id", text(data.operation_id), { state });
}

function artifactCreated(view, data) {
  const item = { artifact_id: text(data.artifact_id), ...pick(data, "name", "content_type", "bytes") };
  put(view, "artifacts", "artifact_id", item);
}

function usage(view, data) {
  const { input_tokens, output_tokens } = view.usage;
  view.usage = {
    input_tokens: input_tokens + (count(data.input_tokens) ?? 0),
    output_tokens: output_tokens + (count(data.output_tokens) ?? 0),
  };
}

const RULES = new Map(Object.entries({
  "run.created": runCreated, "run.started": become("running"), "run.titled": runTitled,
  "run.waiting": runWaiting, "run.resumed": become("running"),
  "step.started": stepStarted, "step.finished": stepFinished, "model.started": model, "model.finished": model,
  "text.start": textStart, "text.delta": textDelta, "text.end": textEnd,
  "tool.started": toolStarted, "tool.dispatched": toolDispatched, "tool.progress": toolProgress,
  "tool.result": toolResult, "tool.unknown": toolUnknown,
  "input.requested": inputRequested,
  "input.answered": closeQuestion("answered"), "input.expired": closeQuestion("expired"),
  "run.cancel_requested": cancelRequested, "run.cancelling": become("cancelling"),
  "run.completed": end("completed"), "run.failed": end("failed"), "run.cancelled": end("cancelled"),
  "run.needs_reconciliation": end("needs_reconciliation"), "run.reconciled": runReconciled,
  "operation.settled": operationSettled, "artifact.created": artifactCreated, usage,
}));
