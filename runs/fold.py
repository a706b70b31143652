"""The fold: how a log of events becomes the view of a run that people and programs look at.

    view = fold(None, frame 1); view = fold(view, frame 2); ...        fold_all(frames) does the same

The law: fold(view at k, frames after k) == fold(all frames), for every k. `streaming/static/streaming/fold.js` is
the same function; tests/runs/test_fold.py holds the two against each other on random logs. Rules that keep both
total and equal:

- A frame counts only if its seq is an integer above the view's and its stream is the view's; so a repeat, a
  control frame and a frame of another attempt change nothing. Whatever counts moves `seq`.
- An unknown type, or a field of a wrong kind, changes nothing but `seq`. Nothing raises.
- Nothing is changed in place: the old view stays valid, and shares with the new one what did not change.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

View = dict[str, Any]
Data = dict[str, Any]

MAX_SEQ = 2**53 - 1  # what JavaScript can count to


class At(NamedTuple):
    """Which step a frame belongs to, and when it happened."""

    step_id: str | None
    ts: str | None


def empty_view() -> View:
    """Give the view of a run of which nothing is known yet."""
    return {
        "v": 1, "run_id": None, "attempt": None, "stream_id": None, "seq": 0, "status": None, "agent": None,
        "title": None, "input": None, "steps": [], "messages": [], "questions": [], "operations": [],
        "artifacts": [], "cancel": None, "waiting": None, "result": None, "error": None,
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
        new |= {key: _text(frame.get(key)) for key in ("run_id", "stream_id")}
        new["attempt"] = _count(frame.get("attempt"))
    kind, data = frame.get("type"), frame.get("data")
    rule = _RULES.get(kind) if isinstance(kind, str) else None
    if rule is not None:
        at = At(_text(frame.get("step_id")), _text(frame.get("ts")))
        rule(new, data if isinstance(data, dict) else {}, at)
    return new


def fold_all(frames: Iterable[Any], view: View | None = None) -> View:
    """Apply frames one after the other."""
    view = empty_view() if view is None else view
    for frame in frames:
        view = fold(view, frame)
    return view


def _counts(view: View, frame: Data) -> bool:
    is_ours = view["stream_id"] is None or _text(frame.get("stream_id")) == view["stream_id"]
    return bool(is_ours and (_count(frame.get("seq")) or 0) > view["seq"])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEQ
    return value if is_count else None


def _pick(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: data.get(key) for key in keys}


def _find(items: list[dict[str, Any]], key: str, value: str | None) -> int:
    """Give the place of the newest item with that id, or -1."""
    if value is not None:
        for i in range(len(items) - 1, -1, -1):
            if items[i][key] == value:
                return i
    return -1


def _change(view: View, part: str, key: str, value: str | None, change: dict[str, Any]) -> None:
    """Change one item of a list, if it is there."""
    items = view[part]
    i = _find(items, key, value)
    if i >= 0:
        view[part] = [*items[:i], {**items[i], **change}, *items[i + 1 :]]


def _put(view: View, part: str, key: str, item: dict[str, Any]) -> None:
    """Add an item, or take the place of the one with the same id. An item without an id is left out."""
    items = view[part]
    i = _find(items, key, item[key])
    if item[key] is not None:
        view[part] = [*items, item] if i < 0 else [*items[:i], item, *items[i + 1 :]]


def _step(view: View, step_id: str | None) -> dict[str, Any] | None:
    i = _find(view["steps"], "step_id", step_id)
    return view["steps"][i] if i >= 0 else None


def _change_in_step(view: View, step_id: str | None, part: str, change: dict[str, Any]) -> None:
    step = _step(view, step_id)
    if step is not None and step[part] is not None:
        _change(view, "steps", "step_id", step_id, {part: {**step[part], **change}})


def _run_created(view: View, data: Data, at: At) -> None:
    view |= {"status": "queued", "agent": _text(data.get("agent")), "input": data.get("input")}
    _run_titled(view, data, at)


def _run_titled(view: View, data: Data, at: At) -> None:
    view["title"] = _text(data.get("title"))


def _status(status: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        view |= {"status": status, "waiting": None}

    return rule


def _run_waiting(view: View, data: Data, at: At) -> None:
    view |= {"status": "waiting", "waiting": {**_pick(data, "waiting_for", "wake_at"), "since": at.ts}}


def _step_started(view: View, data: Data, at: At) -> None:
    before = _step(view, at.step_id)  # a step that was cut is started again under the same id
    step = {"step_id": at.step_id, **_pick(data, "path", "kind", "name", "effect"), "state": "open"}
    step |= {"started_at": at.ts, "finished_at": None, "error": None, "tool": None, "model": None}
    step["message_ids"] = before["message_ids"] if before else []
    _put(view, "steps", "step_id", step)


def _step_finished(view: View, data: Data, at: At) -> None:
    change = {"state": _text(data.get("state")) or "finished", "error": data.get("error"), "finished_at": at.ts}
    _change(view, "steps", "step_id", at.step_id, change)


def _model(view: View, data: Data, at: At) -> None:
    keys = ("provider", "model", "request_id", "stop_reason", "provider_side", "usage")
    known = (_step(view, at.step_id) or {}).get("model") or dict.fromkeys(keys)
    model = {key: data.get(key, known[key]) for key in keys}  # an end by a supervisor knows only some of them
    _change(view, "steps", "step_id", at.step_id, {"model": model})


def _text_start(view: View, data: Data, at: At) -> None:
    message_id = _text(data.get("message_id"))
    message = {"message_id": message_id, "step_id": at.step_id, "label": _text(data.get("label"))}
    _put(view, "messages", "message_id", {**message, "text": "", "state": "open"})
    step = _step(view, at.step_id)
    if step is not None and message_id is not None and message_id not in step["message_ids"]:
        _change(view, "steps", "step_id", at.step_id, {"message_ids": [*step["message_ids"], message_id]})


def _text_delta(view: View, data: Data, at: At) -> None:
    message_id, delta = _text(data.get("message_id")), _text(data.get("delta"))
    i = _find(view["messages"], "message_id", message_id)
    if i >= 0 and delta and view["messages"][i]["state"] == "open":
        _change(view, "messages", "message_id", message_id, {"text": view["messages"][i]["text"] + delta})


def _text_end(view: View, data: Data, at: At) -> None:
    """Close a text. Superseded text stays here under that word, so that nothing takes it for the answer."""
    final, reason = data.get("final") is True, data.get("reason")
    state = "final" if final else "superseded" if reason == "superseded" else "interrupted"
    _change(view, "messages", "message_id", _text(data.get("message_id")), {"state": state})


def _tool_started(view: View, data: Data, at: At) -> None:
    tool = {**_pick(data, "tool", "effect", "arguments", "operation_key"), "operation_id": None}
    tool |= {"progress": None, "ok": None, "value": None, "error": None, "proof": None}
    _change(view, "steps", "step_id", at.step_id, {"tool": tool})


def _tool_dispatched(view: View, data: Data, at: At) -> None:
    ids = _pick(data, "operation_id", "operation_key")
    _change_in_step(view, at.step_id, "tool", ids)
    step = _step(view, at.step_id)
    tool = step["tool"]["tool"] if step is not None and step["tool"] is not None else None
    operation_id = _text(data.get("operation_id"))
    item = {"operation_id": operation_id, "operation_key": data.get("operation_key"), "tool": tool}
    _put(view, "operations", "operation_id", {**item, "state": "dispatched"})


def _tool_progress(view: View, data: Data, at: At) -> None:
    _change_in_step(view, at.step_id, "tool", {"progress": data.get("data")})


def _tool_result(view: View, data: Data, at: At) -> None:
    ok = data.get("ok") is True
    _change_in_step(view, at.step_id, "tool", {"ok": ok, **_pick(data, "value", "error", "proof")})
    step = _step(view, at.step_id)
    if step is not None and step["tool"] is not None:
        operation_id = _text(step["tool"]["operation_id"])
        _change(view, "operations", "operation_id", operation_id, {"state": "succeeded" if ok else "failed"})


def _tool_unknown(view: View, data: Data, at: At) -> None:
    _change_in_step(view, at.step_id, "tool", {"ok": None, "error": data.get("message")})
    _change(view, "operations", "operation_id", _text(data.get("operation_id")), {"state": "unknown"})


def _input_requested(view: View, data: Data, at: At) -> None:
    question = {"question_id": _text(data.get("question_id")), "step_id": at.step_id}
    question |= {**_pick(data, "prompt", "schema", "expires_at"), "state": "open", "value": None}
    _put(view, "questions", "question_id", question)


def _close_question(state: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        change = {"state": state, "value": data.get("value")}
        _change(view, "questions", "question_id", _text(data.get("question_id")), change)

    return rule


def _shut_questions(view: View) -> None:
    if any(q["state"] == "open" for q in view["questions"]):
        view["questions"] = [{**q, "state": "shut"} if q["state"] == "open" else q for q in view["questions"]]


def _cancel_requested(view: View, data: Data, at: At) -> None:
    keys = ("cancel_id", "reason", "by", "note", "stop_deadline_at", "pending")
    view |= {"status": "cancel_requested", "waiting": None}
    view["cancel"] = {**_pick(data, *keys), "requested_at": at.ts, "effects": None}
    _shut_questions(view)


def _end(status: str) -> "Rule":
    def rule(view: View, data: Data, at: At) -> None:
        view |= {"status": status, "waiting": None, "terminal_at": at.ts}
        _shut_questions(view)
        if status == "completed":
            view["result"] = data.get("result")
        elif status == "failed":
            view["error"] = _pick(data, "code", "message")
        elif status == "cancelled":
            view["cancel"] = {**(view["cancel"] or {}), **_pick(data, "reason", "effects")}
        else:
            _open_outcomes(view, data.get("operations"))

    return rule


def _open_outcomes(view: View, operations: Any) -> None:
    for one in operations if isinstance(operations, list) else []:
        if isinstance(one, dict):
            _change(view, "operations", "operation_id", _text(one.get("operation_id")), {"state": "unknown"})


def _run_reconciled(view: View, data: Data, at: At) -> None:
    view["status"] = _text(data.get("status")) or view["status"]


def _operation_settled(view: View, data: Data, at: At) -> None:
    change = {"state": _text(data.get("outcome")) or "unknown"}
    _change(view, "operations", "operation_id", _text(data.get("operation_id")), change)


def _artifact_created(view: View, data: Data, at: At) -> None:
    item = {"artifact_id": _text(data.get("artifact_id")), **_pick(data, "name", "content_type", "bytes")}
    _put(view, "artifacts", "artifact_id", item)


def _usage(view: View, data: Data, at: At) -> None:
    view["usage"] = {key: old + (_count(data.get(key)) or 0) for key, old in view["usage"].items()}


Rule = Callable[[View, Data, At], None]
_RULES: dict[str, Rule] = {
    "run.created": _run_created, "run.started": _status("running"), "run.titled": _run_titled,
    "run.waiting": _run_waiting, "run.resumed": _status("running"),
    "step.started": _step_started, "step.finished": _step_finished,
    "model.started": _model, "model.finished": _model,
    "text.start": _text_start, "text.delta": _text_delta, "text.end": _text_end,
    "tool.started": _tool_started, "tool.dispatched": _tool_dispatched, "tool.progress": _tool_progress,
    "tool.result": _tool_result, "tool.unknown": _tool_unknown,
    "input.requested": _input_requested,
    "input.answered": _close_question("answered"), "input.expired": _close_question("expired"),
    "run.cancel_requested": _cancel_requested, "run.cancelling": _status("cancelling"),
    "run.completed": _end("completed"), "run.failed": _end("failed"), "run.cancelled": _end("cancelled"),
    "run.needs_reconciliation": _end("needs_reconciliation"), "run.reconciled": _run_reconciled,
    "operation.settled": _operation_settled, "artifact.created": _artifact_created, "usage": _usage,
}  # fmt: skip
