"""What a model is told of the turns before: messages, repaired where a run was interrupted. Pure.

- Each call of a tool has exactly one result, under an id of ours, unique in the history: providers refuse a history
  without it. The result of an interrupted call says that it was interrupted, and what is known of it, no more.
- Text that was cut is left out; a note says that the answer was stopped, or that it failed.
- Each turn begins with what the person said and ends with the assistant's text, so roles alternate.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from runs.states import OperationState, Status, StepState

type Row = dict[str, Any]
type Said = dict[str, Any]  # {"role", "content", "tool_calls"?: [{"id", "name", "arguments"}], "tool_call_id"?}

MAX_CHARS = 60_000  # of the whole history; whole turns are left out, the oldest first
RESULT_CHARS = 6_000  # of one tool result
NOT_RUN = {"not_run": True, "known": "There is no record that this call was made."}
KNOWN = {
    OperationState.INTENDED: "It was not sent.",
    OperationState.REFUTED: "It did not take effect.",
    OperationState.FAILED: "It was refused and did not take effect.",
    OperationState.DISPATCHED: "It was sent. Whether it took effect is not known.",
    OperationState.UNKNOWN: "It was sent. Whether it took effect is not known.",
    OperationState.SUCCEEDED: "It took effect.",
    OperationState.CONFIRMED: "It took effect.",
}


def write_history(turns: Sequence[Row], steps: Iterable[Row]) -> list[Said]:
    """Write the messages of past runs.

    Args: turns: oldest first: stream_id, status, error_code, input (its `prompt` is what the person said); steps: of
    these streams: stream_id, path, kind, name, arguments, state, result, error, operation_state, receipt, is_process.
    """
    of_stream: dict[Any, list[Row]] = {turn["stream_id"]: [] for turn in turns}
    for step in steps:
        of_stream[step["stream_id"]].append(step)
    kept: list[list[Said]] = []
    size = 0
    for turn in reversed(turns):
        written = _write_turn(turn, sorted(of_stream[turn["stream_id"]], key=_place))
        size += sum(len(json.dumps(message)) for message in written)
        if kept and size > MAX_CHARS:
            break
        kept.append(written)
    return _number([message for turn_said in reversed(kept) for message in turn_said])


def _place(step: Row) -> tuple[int, ...]:
    return tuple(int(part) for part in step["path"].split("."))


def _write_turn(turn: Row, steps: list[Row]) -> list[Said]:
    asked = turn["input"] if isinstance(turn["input"], dict) else {}
    said: list[Said] = [{"role": "user", "content": str(asked.get("prompt") or "")}]
    results: dict[str, str] = {}
    for index, step in enumerate(steps):
        value = (step["result"] or {}).get("value")
        if step["state"] != StepState.FINISHED:
            continue  # a text that was cut, or an answer that failed
        if step["kind"] == "text":
            said.append({"role": "assistant", "content": str(step["arguments"].get("text") or "")})
        elif step["kind"] == "model":
            said += _write_reply(value, _calls_until_next_reply(steps[index + 1 :]), results)
    if said[-1]["role"] != "assistant":
        said.append({"role": "assistant", "content": _note(turn)})
    return said


def _calls_until_next_reply(steps: list[Row]) -> list[Row]:
    end = next((i for i, step in enumerate(steps) if step["kind"] == "model"), len(steps))
    return [step for step in steps[:end] if step["kind"] == "tool"]


def _write_reply(value: Any, calls: list[Row], results: dict[str, str]) -> list[Said]:
    """Write a model's reply and one result for each of its calls. results: by call, of this turn so far."""
    if not isinstance(value, dict):  # an end of a run must not fail because of what a step once stored
        value = {"text": value if isinstance(value, str) else ""}
    uses = value.get("tool_uses") or []
    reply: Said = {"role": "assistant", "content": value.get("text") or ""}
    if not uses:
        return [reply]
    reply["tool_calls"] = [{"id": "", "name": use["name"], "arguments": use["arguments"]} for use in uses]
    told = [reply]
    for use in uses:
        call = _take(calls, use)
        key = json.dumps([use["name"], use["arguments"]], sort_keys=True)
        if call is not None:
            results[key] = _result(call)
        told.append({"role": "tool", "content": results.get(key) or _dump(NOT_RUN), "tool_call_id": ""})
    return told


def _take(calls: list[Row], use: Row) -> Row | None:
    """Take the step that a use became: the first of its name with its arguments (a step also has the defaults)."""
    asked = use["arguments"]
    fits = (c for c in calls if c["name"] == use["name"] and all(c["arguments"].get(k) == v for k, v in asked.items()))
    found = next(fits, None)
    if found is not None:
        calls.remove(found)
    return found


def _result(call: Row) -> str:
    if call["state"] == StepState.FINISHED:
        return _dump((call["result"] or {}).get("value"))
    if call["state"] == StepState.FAILED:
        error = call["error"] or {}
        return _dump({"error": {"code": error.get("code"), "message": error.get("message")}})
    told: dict[str, Any] = {"interrupted": True, "known": "No result came."}
    receipt = call["receipt"] or {}
    if call["operation_state"] is not None:
        state = OperationState(call["operation_state"])
        told["known"] = KNOWN[state]
        if call["is_process"] and state == OperationState.SUCCEEDED:
            told["known"] = "It had begun and was stopped." if receipt.get("stopped") else "It ended."
        elif state in (OperationState.SUCCEEDED, OperationState.CONFIRMED) and receipt.get("value") is not None:
            told["result"] = receipt["value"]
    return _dump(told)


def _note(turn: Row) -> str:
    if turn["status"] == Status.CANCELLED:
        return "(This answer was stopped before it was finished.)"
    if turn["status"] == Status.FAILED:
        return f"(This answer failed: {turn['error_code'] or 'unknown'}.)"
    return "(No answer.)"


def _number(messages: list[Said]) -> list[Said]:
    """Give each call and its result an id; results follow their reply in the order of its calls."""
    number = 0
    waiting: list[str] = []
    for message in messages:
        for call in message.get("tool_calls", []):
            number += 1
            call["id"] = f"past_{number}"
            waiting.append(call["id"])
        if message["role"] == "tool":
            message["tool_call_id"] = waiting.pop(0)
    return messages


def _dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= RESULT_CHARS else f"{text[:RESULT_CHARS]} [cut: {len(text)} characters]"
