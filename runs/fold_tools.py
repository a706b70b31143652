"""What tools make of the view: a call in its step, its operation, and what the receipt of a stop says of it. Pure."""

from typing import Any

from runs.fold_parts import At, change, change_in_step, find, pick, put, step_of, text


def was_stopped(step: dict[str, Any] | None) -> bool:
    """Say whether a step ended because of a stop: of its call, or of the run that it began."""
    if step is None:
        return False
    tool, child = step["tool"], step["child"]
    return bool(tool and tool.get("stopped")) or bool(child and child["status"] == "cancelled")


def tool_started(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    tool = {**pick(data, "tool", "effect", "arguments", "operation_key"), "operation_id": None}
    tool |= {"progress": None, "ok": None, "stopped": False, "value": None, "error": None, "proof": None}
    change(view, "steps", "step_id", at.step_id, {"tool": tool})


def tool_dispatched(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    ids = pick(data, "operation_id", "operation_key")
    change_in_step(view, at.step_id, "tool", ids)
    step = step_of(view, at.step_id)
    tool = step["tool"]["tool"] if step is not None and step["tool"] is not None else None
    operation_id = text(data.get("operation_id"))
    item = {"operation_id": operation_id, "operation_key": data.get("operation_key"), "tool": tool}
    put(view, "operations", "operation_id", {**item, "state": "dispatched"})


def tool_progress(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    change_in_step(view, at.step_id, "tool", {"progress": data.get("data")})


def tool_result(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    word = word_of_result(data)
    known = {"ok": word == "succeeded", "stopped": data.get("stopped") is True or word == "stopped"}
    change_in_step(view, at.step_id, "tool", {**known, **pick(data, "value", "error", "proof")})
    step = step_of(view, at.step_id)
    if step is not None and step["tool"] is not None:
        operation_id = text(step["tool"]["operation_id"])
        change(view, "operations", "operation_id", operation_id, {"state": word})


def tool_unknown(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    change_in_step(view, at.step_id, "tool", {"ok": None, "error": data.get("message")})
    change(view, "operations", "operation_id", text(data.get("operation_id")), {"state": "unknown"})


def open_outcomes(view: dict[str, Any], operations: Any) -> None:
    for one in operations if isinstance(operations, list) else []:
        if isinstance(one, dict):
            change(view, "operations", "operation_id", text(one.get("operation_id")), {"state": "unknown"})


def operation_settled(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    state, operation_id = text(data.get("outcome")) or "unknown", text(data.get("operation_id"))
    change(view, "operations", "operation_id", operation_id, {"state": state})
    settle_effect(view, operation_id, state, text(data.get("source")))


def compensation(view: dict[str, Any], data: dict[str, Any], at: At) -> None:
    changed = {"undo": text(data.get("state")) or "unknown"}
    change(view, "operations", "operation_id", text(data.get("operation_id")), changed)


def word_of_result(data: dict[str, Any]) -> str:
    """Say what the result of a tool makes of its operation. Older events say "stopped" by their error's code alone."""
    if data.get("ok") is True:
        return "succeeded"
    error = data.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if code in ("permit_expired", "not_happened"):
        return "refuted"
    return "stopped" if data.get("stopped") is True or code == "stopped" else "failed"


# What the receipt of a stop says of an operation that had no answer of its own in the stream.
_STATE_OF_OUTCOME = {
    "stopped": "stopped", "finished_first": "succeeded", "committed": "succeeded", "not_started": "refuted",
}  # fmt: skip


def settle_rest(view: dict[str, Any], effects: Any) -> None:
    """Take from the receipt of a stop what became of operations that are still on their way."""
    for one in effects if isinstance(effects, list) else []:
        outcome = text(one.get("outcome")) if isinstance(one, dict) else None
        if outcome is None or (state := _STATE_OF_OUTCOME.get(outcome)) is None:
            continue
        operation_id = text(one.get("operation_id"))
        i = find(view["operations"], "operation_id", operation_id)
        if i >= 0 and view["operations"][i]["state"] == "dispatched":
            change(view, "operations", "operation_id", operation_id, {"state": state})


def settle_effect(view: dict[str, Any], operation_id: str | None, state: str, source: str | None) -> None:
    """Say in the receipt of a stop what has become of an operation that was in doubt."""
    cancel = view["cancel"]
    effects = cancel["effects"] if cancel is not None else None
    word = {"confirmed": "committed", "refuted": "not_started"}.get(state)
    if word is None or operation_id is None or not isinstance(effects, list):
        return
    known = {"outcome": word, "proof": source}
    told = [
        {**one, **known} if isinstance(one, dict) and one.get("operation_id") == operation_id else one
        for one in effects
    ]
    view["cancel"] = {**cancel, "effects": told}
