// The fold: how a log of events becomes the view of a run. The same function as runs/fold.py, whose first lines
// state its rules; tests/runs/test_fold.py holds the two against each other on random logs.
//
//   let view = fold(null, frame1); view = fold(view, frame2); ...
//
// Total: any JSON value is accepted as a frame, nothing throws. Pure: the old view is never changed in place.

import { change, count, find, firstSeq, isObject, own, pick, put, stepOf, text } from "./fold_parts.js";
import {
  compensation, openOutcomes, operationSettled, settleRest, toolDispatched, toolProgress, toolResult, toolStarted,
  toolUnknown, wasStopped,
} from "./fold_tools.js";

export { firstSeq };

export function emptyView() {
  return {
    v: 1, run_id: null, attempt: null, stream_id: null, seq: 0, status: null, agent: null, title: null, input: null,
    parent_id: null, steps: [], messages: [], questions: [], operations: [], artifacts: [], cancel: null,
    waiting: null, result: null, error: null, retry: null, usage: { input_tokens: 0, output_tokens: 0 },
    terminal_at: null,
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

function counts(view, frame) {
  if ((firstSeq(frame) ?? 0) <= view.seq) return false;
  return view.stream_id === null || text(frame.stream_id) === view.stream_id;
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
  else if (status === "cancelled") {
    view.cancel = { ...view.cancel, ...pick(data, "reason", "effects") };
    settleRest(view, own(data, "effects"));
  } else {
    if (view.cancel) view.cancel = { ...view.cancel, ...pick(data, "effects") };
    settleRest(view, own(data, "effects"));
    openOutcomes(view, data.operations);
  }
};

const closeQuestion = (state) => (view, data) => {
  change(view, "questions", "question_id", text(data.question_id), { state, value: own(data, "value") });
};

function runTitled(view, data) {
  view.title = text(data.title);
}

function runCreated(view, data) {
  const known = { agent: text(data.agent), input: own(data, "input"), parent_id: text(data.parent_id) };
  Object.assign(view, { status: "queued", ...known });
  runTitled(view, data);
}

function attemptCreated(view, data) {
  runCreated(view, data);
  view.retry = pick(data, "retry_of", "ended", "reason", "by", "reuse", "redo");
  // Files that earlier attempts have made are still the run's.
  if (Array.isArray(data.artifacts)) for (const one of data.artifacts.filter(isObject)) artifactCreated(view, one);
}

function runWaiting(view, data, stepId, ts) {
  Object.assign(view, { status: "waiting", waiting: { ...pick(data, "waiting_for", "wake_at"), since: ts } });
}

function stepStarted(view, data, stepId, ts) {
  const before = stepOf(view, stepId); // a step that was cut is started again under the same id
  put(view, "steps", "step_id", {
    step_id: stepId, ...pick(data, "path", "kind", "name", "effect"), state: "open", started_at: ts,
    finished_at: null, error: null, tool: null, model: null, child: null,
    message_ids: before ? before.message_ids : [], reused_from: count(own(data, "reused_from")),
  });
}

function stepFinished(view, data, stepId, ts) {
  let state = text(data.state) || "finished";
  if (state === "failed" && wasStopped(stepOf(view, stepId))) state = "stopped";
  const changed = { state, error: own(data, "error"), finished_at: ts };
  change(view, "steps", "step_id", stepId, changed);
}

const part = (name, ...keys) => (view, data, stepId) => {
  const known = stepOf(view, stepId)?.[name] ?? {}; // a later event may know only some of its keys
  const entry = (key) => [key, Object.hasOwn(data, key) ? data[key] : (known[key] ?? null)];
  change(view, "steps", "step_id", stepId, { [name]: Object.fromEntries(keys.map(entry)) });
};

const model = part("model", "provider", "model", "request_id", "stop_reason", "provider_side", "usage");
const child = part("child", "child_id", "agent", "title", "status", "shell_id", "held_by");

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

function textCompacted(view, data) {
  textDelta(view, { message_id: own(data, "message_id"), delta: own(data, "text") });
}

function textEnd(view, data) {
  const state = data.final === true ? "final" : data.reason === "superseded" ? "superseded" : "interrupted";
  change(view, "messages", "message_id", text(data.message_id), { state });
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
  view.cancel = { ...pick(data, ...keys), requested_at: ts, effects: null, forced: null };
  shutQuestions(view);
}

// Somebody ended the run without waiting for who carried it.
function stopForced(view, data, stepId, ts) {
  if (view.cancel) view.cancel = { ...view.cancel, forced: { ...pick(data, "by", "note"), at: ts } };
}

function runReconciled(view, data) {
  view.status = text(data.status) || view.status;
}

function artifactCreated(view, data) {
  const item = { artifact_id: text(data.artifact_id), ...pick(data, "name", "content_type", "bytes") };
  put(view, "artifacts", "artifact_id", item);
}

function usage(view, data) {
  const add = (key) => Math.min(view.usage[key] + (count(data[key]) ?? 0), Number.MAX_SAFE_INTEGER);
  view.usage = { input_tokens: add("input_tokens"), output_tokens: add("output_tokens") };
}

const RULES = new Map(Object.entries({
  "run.created": runCreated, "attempt.created": attemptCreated,
  "run.started": become("running"), "run.titled": runTitled,
  "run.waiting": runWaiting, "run.resumed": become("running"),
  "step.started": stepStarted, "step.finished": stepFinished,
  "child.started": child, "child.finished": child, "child.settled": child,
  "child.taken_over": child, "child.handed_back": child,
  "model.started": model, "model.finished": model,
  "text.start": textStart, "text.delta": textDelta, "text.end": textEnd,
  "text.compacted": textCompacted,
  "tool.started": toolStarted, "tool.dispatched": toolDispatched, "tool.progress": toolProgress,
  "tool.result": toolResult, "tool.unknown": toolUnknown,
  "input.requested": inputRequested,
  "input.answered": closeQuestion("answered"), "input.expired": closeQuestion("expired"),
  "run.cancel_requested": cancelRequested, "run.cancelling": become("cancelling"),
  "run.stop_forced": stopForced,
  "run.completed": end("completed"), "run.failed": end("failed"), "run.cancelled": end("cancelled"),
  "run.needs_reconciliation": end("needs_reconciliation"), "run.reconciled": runReconciled,
  "operation.settled": operationSettled, "compensation.requested": compensation,
  "compensation.dispatched": compensation, "compensation.finished": compensation,
  "artifact.created": artifactCreated, usage,
}));
