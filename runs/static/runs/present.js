// The view of a run as its page shows it: the same words, chips, facts and questions as runs/pages/present.py.

import { fill, gettext, writeSeconds } from "./words.js";

const own = (table, key, other) => (typeof key === "string" && Object.hasOwn(table, key) ? table[key] : other);

export function showStep(step, { view, words }) {
  const tool = step.tool ?? {};
  const operation = view.operations.find((o) => o.operation_id === tool.operation_id);
  const messages = step.message_ids
    .map((id) => view.messages.find((m) => m.message_id === id))
    .filter((m) => m && m.state !== "superseded");
  const state = own(words.step, step.state) ? step.state : "open";
  const path = asText(step.path), known = facts(step, tool, words);
  return {
    id: step.step_id,
    depth: path.split(".").length - 1,
    kind: step.kind,
    kindWord: own(words.kind, step.kind, words.kind.text),
    name: messages.find((m) => m.label)?.label ?? (commandLine(tool) || asText(step.name)),
    state,
    stateWord: words.step[stateWord(state, operation)],
    effect: step.kind === "tool" ? own(words.effect, step.effect) : undefined,
    outcome: operation ? own(words.undo, operation.undo) ?? own(words.operation, operation.state) : own(words.status, step.child?.status),
    childId: step.child?.child_id ?? "",
    shellId: step.child?.shell_id ?? "",
    taken: step.child?.held_by ? fill(gettext("%(name)s has taken over the shell. The agent waits until it is handed back."), { name: asText(step.child.held_by) }) : "",
    childTitle: asText(step.child?.title),
    reused: step.reused_from ? fill(gettext("from attempt %(n)s"), { n: step.reused_from }) : "",
    took: duration(step.started_at, step.finished_at),
    startedAt: state === "open" ? step.started_at : null,
    messages,
    facts: known,
    hint: oneLine(isEmpty(tool.arguments) ? null : tool.arguments) || known.model,
    isOpened: step.kind === "tool" && step.effect !== "read",
    error: state === "abandoned" || (state === "stopped" && step.tool) ? "" : errorText(step.error) || errorText(tool.error),
    errorTone: state === "stopped" ? "grey" : "red",
    questions: view.questions.filter((q) => q.step_id === step.step_id && q.state !== "open"),
  };
}

function stateWord(state, operation) {
  if (state !== "abandoned" || !operation) return state;
  return operation.state === "stopped" ? "stopped" : "unanswered";
}

const COMMANDS = ["shell_run", "run_command"]; // tools whose calls are told apart by what they run
const COMMAND_CHARS = 80;

// The command that a tool runs as the title of its step: its first line, shortened; empty for other tools.
function commandLine(tool) {
  const command = COMMANDS.includes(tool.tool) ? tool.arguments?.command : null;
  const whole = typeof command === "string" ? command.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "") : "";
  if (!whole) return "";
  const line = whole.split("\n")[0].replace(/[ \t\r]+$/, "");
  const isWhole = line === whole && [...line].length <= COMMAND_CHARS;
  return `$ ${[...line].slice(0, COMMAND_CHARS).join("")}${isWhole ? "" : "…"}`;
}

const proofText = (proof, words) => own(words.proof, asText(proof), asText(proof));

function facts(step, tool, words) {
  const model = step.model ?? {};
  const side = model.provider_side;
  const names = [asText(model.provider), asText(model.model)].filter(Boolean);
  return {
    arguments: pretty(isEmpty(tool.arguments) ? null : tool.arguments),
    progress: step.state === "open" ? pretty(tool.progress) : "",
    result: pretty(tool.value),
    proof: proofText(tool.proof, words),
    key: asText(tool.operation_key),
    model: names.join(" · "),
    request: asText(model.request_id),
    side: side === "stopped" ? gettext("stopped computing") : side === "unknown" ? gettext("not known") : "",
  };
}

const isEmpty = (value) => !value || (typeof value === "object" && Object.keys(value).length === 0);

export function showEffects(effects, words) {
  return (Array.isArray(effects) ? effects : []).filter((e) => e && typeof e === "object" && !Array.isArray(e)).map((e) => ({
    name: asText(e.name),
    word: own(words.receipt, e.outcome, words.receipt.unknown),
    proof: [asText(e.external_id), proofText(e.proof, words)].filter(Boolean).join(" · "),
  }));
}

const MAIN_TEXTS = ["answer", "text", "summary", "message"];
const HINT_CHARS = 160;

export function showResult(view) {
  const result = view.result;
  if (result === null) return ["", ""];
  let text = "";
  let rest = result;
  if (typeof result === "string") [text, rest] = [result, null];
  else if (typeof result === "object" && !Array.isArray(result)) {
    const name = MAIN_TEXTS.find((n) => typeof result[n] === "string");
    if (name) {
      text = result[name];
      rest = Object.fromEntries(Object.entries(result).filter(([key]) => key !== name));
    }
  }
  const last = view.messages.findLast((m) => m.state === "final");
  const isShown = last !== undefined && last.text.trim() === text.trim();
  return isShown && text ? ["", ""] : [text, isEmpty(rest) ? "" : pretty(rest)];
}

function oneLine(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [...asText(value)].slice(0, HINT_CHARS).join("");
  const line = Object.entries(value).filter(([, item]) => item !== null && item !== "").map(([key, item]) => `${key}: ${asText(item)}`).join(", ");
  return [...line].slice(0, HINT_CHARS).join("");
}

export function attemptText(view) {
  const retry = view.retry;
  if (!retry) return "";
  const told = { n: asText(view.attempt), of: asText(retry.retry_of), by: asText(retry.by), why: asText(retry.reason) };
  return retry.reason
    ? fill(gettext("Attempt %(n)s, retry of %(of)s by %(by)s: “%(why)s”"), told)
    : fill(gettext("Attempt %(n)s, retry of %(of)s by %(by)s"), told);
}

export function verifyingText(view) {
  const names = view.operations.filter((o) => o.state === "unknown").map((o) => `“${asText(o.tool)}”`);
  const children = view.steps.filter((s) => s.child?.status === "needs_reconciliation");
  if (!names.length && children.length) {
    return fill(
      gettext("What a run that it began has done is being verified: %(list)s. Nothing will be retried until it is settled."),
      { list: children.map((s) => `“${asText(s.child.title)}”`).join(", ") },
    );
  }
  if (!names.length) return gettext("Nothing will be retried until it is settled.");
  return fill(
    gettext("We sent %(list)s and got no answer; it may have happened. Nothing will be retried until it is settled."),
    { list: names.join(", ") },
  );
}

export function usageText(usage) {
  if (!usage.input_tokens && !usage.output_tokens) return "";
  return fill(gettext("%(in)s tokens in, %(out)s out"), { in: usage.input_tokens, out: usage.output_tokens });
}

export function duration(start, end) {
  const length = start && end ? (Date.parse(end) - Date.parse(start)) / 1000 : Number.NaN;
  return Number.isNaN(length) ? "" : writeSeconds(Math.max(0, length));
}

export function asText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function pretty(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export function errorText(error) {
  if (!error || typeof error !== "object" || Array.isArray(error)) return asText(error);
  const code = asText(error.code);
  const message = asText(error.message);
  return code && message ? `${code}: ${message}` : code || message || asText(error);
}
