"""The fold: how a log of events becomes the view of a run that people and programs look at.

    view = fold(None, frame 1); view = fold(view, frame 2); ...        fold_all(frames) does the same

The law: fold(view at k, frames after k) == fold(all frames), for every k. `streaming/static/streaming/fold.js` is
the same function; tests/runs/test_fold.py holds the two against each other on random logs. Rules that keep both
total and equal:

- A frame counts only if its first seq is an integer above the view's and its stream is the view's; so a repeat, a
  control frame and a frame of another attempt change nothing. Whatever counts moves `seq`. The first seq is the
  frame's own, but for `text.compacted`, which stands for all deltas from `from_seq` to its seq.
- An unknown type, or a field of a wrong kind, changes nothing but `seq`. Nothing raises.
- Nothing is changed in place: the old view stays valid, and shares with the new one what did not change.
"""

from collections.abc import Callable, Iterable
from typing import Any

from runs.fold_parts import MAX_COUNT, At, change, count, find, first_seq, pick, put, step_of, text
from runs.fold_tools import (
    compensation,
    open_outcomes,
    operation_settled,
    settle_rest,
    tool_dispatched,
    tool_progress,
    tool_result,
    tool_started,
    tool_unknown,
    was_stopped,
)

FOLD_VERSION = 6  # of what is stored as a view: raise it with every change of what this function gives

View = dict[str, Any]
Data = dict[str, Any]


def empty_view() -> View:
    """Give the view of a run of which nothing is known yet."""
    return {
        "v": 1, "run_id": None, "attempt": None, "stream_id": None, "seq": 0, "status": None, "agent": None,
        "title": None, "input": None, "parent_id": None, "steps": [], "messages": [], "questions": [], "operations": [],
        "artifacts": [], "cancel": None, "waiting": None, "result": None, "error": None, "retry": None,
        "usage": {"input_tokens": 0, "output_tokens": 0}, "terminal_at": None,
    }  # fmt: skip


def fold(view: View | None, frame: Any) -> View:
    """Apply one frame. Total: any JSON value is accepted as a frame, and what makes no sense changes nothing."""
    if view is None:
        view = empty_view()
    if not isinstance(frame, dict) or not _counts(view, frame):
        return view
    new = {**view, "seq": frame["seq"]}
    if new["stream_id"] is None:
        new |= {key: text(frame.get(key)) for key in ("run_id", "stream_id")}
        new["attempt"] = count(frame.get("attempt"))
    kind, data = frame.get("type"), frame.get("data")
    rule = _RULES.get(kind) if isinstance(kind, str) else None
    if rule is not None:
        at = At(text(frame.get("step_id")), text(frame.get("ts")))
        rule(new, data if isinstance(data, dict) else {}, at)
    return new


def fold_all(frames: Iterable[Any], view: View | None = None) -> View:
    """Apply frames one after the other."""
    view = empty_view() if view is None else view
    for frame in frames:
        view = fold(view, frame)
    return view


def _counts(view: View, frame: Data) -> bool:
    is_ours = view["stream_id"] is None or text(frame.get("stream_id")) == view["stream_id"]
    return bool(is_ours and (first_seq(frame) or 0) > view["seq"])


def _run_created(view: View, data: Data, at: At) -> None:
    view |= {"status": "queued", "agent": text(data.get("agent")), "input": data.get("input")}
    view["parent_id"] = text(data.get("parent_id"))
    _run_titled(view, data, at)


def _attempt_created(view: View, data: Data, at: At) -> None:
    """Begin the view of a retry; files that earlier attempts have made are still the run's."""
    _run_created(view, data, at)
    view["retry"] = pick(data, "retry_of", "ended", "reason", "by", "reuse", "redo")
    files = data.get("artifacts")
    for one in files if isinstance(files, list) else []:
        if isinstance(one, dict):
            _artifact_created(view, one, at)


def _run_titled(view: View, data: Data, at: At) -> None:
    view["title"] = text(data.get("title"))


def _status(status: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        view |= {"status": status, "waiting": None}

    return rule


def _run_waiting(view: View, data: Data, at: At) -> None:
    view |= {"status": "waiting", "waiting": {**pick(data, "waiting_for", "wake_at"), "since": at.ts}}


def _step_started(view: View, data: Data, at: At) -> None:
    before = step_of(view, at.step_id)  # a step that was cut is started again under the same id
    step = {"step_id": at.step_id, **pick(data, "path", "kind", "name", "effect"), "state": "open"}
    step |= {"started_at": at.ts, "finished_at": None, "error": None, "tool": None, "model": None, "child": None}
    step["reused_from"] = count(data.get("reused_from"))
    step["message_ids"] = before["message_ids"] if before else []
    put(view, "steps", "step_id", step)


def _step_finished(view: View, data: Data, at: At) -> None:
    state = text(data.get("state")) or "finished"
    if state == "failed" and was_stopped(step_of(view, at.step_id)):
        state = "stopped"
    changed = {"state": state, "error": data.get("error"), "finished_at": at.ts}
    change(view, "steps", "step_id", at.step_id, changed)


def _part(part: str, *keys: str) -> "Rule":
    """Keep a part of a step: a later event may know only some of its keys."""

    def rule(view: View, data: Data, at: At) -> None:
        known = (step_of(view, at.step_id) or {}).get(part) or dict.fromkeys(keys)
        change(view, "steps", "step_id", at.step_id, {part: {key: data.get(key, known.get(key)) for key in keys}})

    return rule


_model = _part("model", "provider", "model", "request_id", "stop_reason", "provider_side", "usage")
_child = _part("child", "child_id", "agent", "title", "status", "shell_id", "held_by")


def _text_start(view: View, data: Data, at: At) -> None:
    message_id = text(data.get("message_id"))
    message = {"message_id": message_id, "step_id": at.step_id, "label": text(data.get("label"))}
    put(view, "messages", "message_id", {**message, "text": "", "state": "open"})
    step = step_of(view, at.step_id)
    if step is not None and message_id is not None and message_id not in step["message_ids"]:
        change(view, "steps", "step_id", at.step_id, {"message_ids": [*step["message_ids"], message_id]})


def _text_delta(view: View, data: Data, at: At) -> None:
    message_id, delta = text(data.get("message_id")), text(data.get("delta"))
    i = find(view["messages"], "message_id", message_id)
    if i >= 0 and delta and view["messages"][i]["state"] == "open":
        change(view, "messages", "message_id", message_id, {"text": view["messages"][i]["text"] + delta})


def _text_compacted(view: View, data: Data, at: At) -> None:
    _text_delta(view, {"message_id": data.get("message_id"), "delta": data.get("text")}, at)


def _text_end(view: View, data: Data, at: At) -> None:
    """Close a text. Superseded text stays here under that word, so that nothing takes it for the answer."""
    final, reason = data.get("final") is True, data.get("reason")
    state = "final" if final else "superseded" if reason == "superseded" else "interrupted"
    change(view, "messages", "message_id", text(data.get("message_id")), {"state": state})


def _input_requested(view: View, data: Data, at: At) -> None:
    question = {"question_id": text(data.get("question_id")), "step_id": at.step_id}
    question |= {**pick(data, "prompt", "schema", "expires_at"), "state": "open", "value": None}
    put(view, "questions", "question_id", question)


def _close_question(state: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        changed = {"state": state, "value": data.get("value")}
        change(view, "questions", "question_id", text(data.get("question_id")), changed)

    return rule


def _shut_questions(view: View) -> None:
    if any(q["state"] == "open" for q in view["questions"]):
        view["questions"] = [{**q, "state": "shut"} if q["state"] == "open" else q for q in view["questions"]]


def _cancel_requested(view: View, data: Data, at: At) -> None:
    keys = ("cancel_id", "reason", "by", "note", "stop_deadline_at", "pending")
    view |= {"status": "cancel_requested", "waiting": None}
    view["cancel"] = {**pick(data, *keys), "requested_at": at.ts, "effects": None, "forced": None}
    _shut_questions(view)


def _stop_forced(view: View, data: Data, at: At) -> None:
    """Say that somebody ended the run without waiting for who carried it."""
    if view["cancel"] is not None:
        view["cancel"] = {**view["cancel"], "forced": {**pick(data, "by", "note"), "at": at.ts}}


def _end(status: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        view |= {"status": status, "waiting": None, "terminal_at": at.ts}
        _shut_questions(view)
        if status == "completed":
            view["result"] = data.get("result")
        elif status == "failed":
            view["error"] = pick(data, "code", "message")
        elif status == "cancelled":
            view["cancel"] = {**(view["cancel"] or {}), **pick(data, "reason", "effects")}
            settle_rest(view, data.get("effects"))
        else:
            view["cancel"] = view["cancel"] and {**view["cancel"], **pick(data, "effects")}
            settle_rest(view, data.get("effects"))
            open_outcomes(view, data.get("operations"))

    return rule


def _run_reconciled(view: View, data: Data, at: At) -> None:
    view["status"] = text(data.get("status")) or view["status"]


def _artifact_created(view: View, data: Data, at: At) -> None:
    item = {"artifact_id": text(data.get("artifact_id")), **pick(data, "name", "content_type", "bytes")}
    put(view, "artifacts", "artifact_id", item)


def _usage(view: View, data: Data, at: At) -> None:
    view["usage"] = {key: min(old + (count(data.get(key)) or 0), MAX_COUNT) for key, old in view["usage"].items()}


Rule = Callable[[View, Data, At], None]
_RULES: dict[str, Rule] = {
    "run.created": _run_created, "attempt.created": _attempt_created,
    "run.started": _status("running"), "run.titled": _run_titled,
    "run.waiting": _run_waiting, "run.resumed": _status("running"),
    "step.started": _step_started, "step.finished": _step_finished,
    "child.started": _child, "child.finished": _child, "child.settled": _child,
    "child.taken_over": _child, "child.handed_back": _child,
    "model.started": _model, "model.finished": _model,
    "text.start": _text_start, "text.delta": _text_delta, "text.end": _text_end,
    "text.compacted": _text_compacted,
    "tool.started": tool_started, "tool.dispatched": tool_dispatched, "tool.progress": tool_progress,
    "tool.result": tool_result, "tool.unknown": tool_unknown,
    "input.requested": _input_requested,
    "input.answered": _close_question("answered"), "input.expired": _close_question("expired"),
    "run.cancel_requested": _cancel_requested, "run.cancelling": _status("cancelling"),
    "run.stop_forced": _stop_forced,
    "run.completed": _end("completed"), "run.failed": _end("failed"), "run.cancelled": _end("cancelled"),
    "run.needs_reconciliation": _end("needs_reconciliation"), "run.reconciled": _run_reconciled,
    "operation.settled": operation_settled, "compensation.requested": compensation,
    "compensation.dispatched": compensation, "compensation.finished": compensation,
    "artifact.created": _artifact_created, "usage": _usage,
}  # fmt: skip
