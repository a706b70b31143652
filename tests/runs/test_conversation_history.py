"""What a model is told of the turns before: repaired, and no more than what is known."""

import json
from typing import Any

import pytest

from runs.conversation_history import MAX_CHARS, NOT_RUN, write_history


def a_turn(stream: str = "s1", status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"stream_id": stream, "status": status, "error_code": None, "input": {"prompt": f"ask {stream}"}} | more


def a_reply(path: str, text: str = "", *uses: tuple[str, dict[str, Any]], state: str = "finished", **more: Any) -> Any:
    value = {"text": text, "tool_uses": [{"id": "call_1", "name": n, "arguments": a} for n, a in uses]}
    result = {"value": value} if state == "finished" else {"value": None}
    return a_step(path, "model", state=state, result=result, **more)


def a_call(path: str, name: str = "mail", arguments: Any = None, state: str = "finished", **more: Any) -> Any:
    return a_step(path, "tool", name=name, arguments=arguments or {}, state=state, **more)


def a_step(path: str, kind: str, **more: Any) -> dict[str, Any]:
    step = {
        "stream_id": "s1", "path": path, "kind": kind, "name": kind, "arguments": {}, "state": "finished",
        "result": {"value": None}, "error": None, "operation_state": None, "receipt": None, "is_process": False,
    }  # fmt: skip
    return step | more


def check_pairs(history: list[dict[str, Any]]) -> None:
    """Assert what providers refuse: each call has exactly one result, right behind its reply."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in history:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls, "a call without its result"
        for call in message.get("tool_calls", []):
            assert call["id"] not in seen
            seen.add(call["id"])
            open_calls.append(call["id"])
    assert not open_calls


def results(history: list[dict[str, Any]]) -> list[Any]:
    check_pairs(history)
    return [json.loads(m["content"]) for m in history if m["role"] == "tool"]


def test_a_turn_is_what_was_asked_and_what_was_answered():
    history = write_history([a_turn()], [a_reply("1", "hello")])
    assert history == [{"role": "user", "content": "ask s1"}, {"role": "assistant", "content": "hello"}]


def test_a_tool_loop_is_told_with_each_result_under_an_id_of_its_own():
    steps = [
        a_reply("1", "let me see", ("mail", {"to": "a"}), ("read", {"n": 1})),
        a_call("2", "mail", {"to": "a", "copy": None}, result={"value": {"sent": True}}),
        a_call("3", "read", {"n": 1}, result={"value": "text"}),
        a_reply("4", "", ("mail", {"to": "b"})),
        a_call("5", "mail", {"to": "b"}, state="failed", error={"code": "refused", "message": "no", "retryable": True}),
        a_reply("6", "done"),
    ]
    history = write_history([a_turn()], steps)
    assert [m["role"] for m in history] == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert results(history) == [{"sent": True}, "text", {"error": {"code": "refused", "message": "no"}}]
    assert [c["id"] for m in history for c in m.get("tool_calls", [])] == ["past_1", "past_2", "past_3"]


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ({"operation_state": None}, "No result came."),
        ({"operation_state": "intended"}, "It was not sent."),
        ({"operation_state": "refuted"}, "It did not take effect."),
        ({"operation_state": "failed"}, "It was refused and did not take effect."),
        ({"operation_state": "dispatched"}, "It was sent. Whether it took effect is not known."),
        ({"operation_state": "unknown"}, "It was sent. Whether it took effect is not known."),
        ({"operation_state": "succeeded"}, "It took effect."),
        ({"operation_state": "confirmed"}, "It took effect."),
        ({"operation_state": "succeeded", "is_process": True, "receipt": {"stopped": True}},
         "It had begun and was stopped."),
    ],
)  # fmt: skip
def test_an_interrupted_call_is_told_as_that_and_only_what_is_known(call, known):
    steps = [a_reply("1", "", ("mail", {"to": "a"})), a_call("2", "mail", {"to": "a"}, state="abandoned", **call)]
    history = write_history([a_turn(status="cancelled")], steps)
    assert results(history) == [{"interrupted": True, "known": known}]
    assert history[-1] == {"role": "assistant", "content": "(This answer was stopped before it was finished.)"}


def test_what_an_interrupted_call_brought_is_told_where_it_is_known():
    call = a_call("2", state="abandoned", operation_state="confirmed", receipt={"value": {"id": 8}})
    history = write_history([a_turn(status="cancelled")], [a_reply("1", "", ("mail", {})), call])
    assert results(history) == [{"interrupted": True, "known": "It took effect.", "result": {"id": 8}}]


def test_a_call_that_never_became_a_step_is_not_told_as_made():
    """Two calls of one reply, and the stop came between them; or a person said no."""
    steps = [a_reply("1", "", ("mail", {"to": "a"}), ("mail", {"to": "b"})), a_call("2", "mail", {"to": "b"})]
    assert results(write_history([a_turn(status="cancelled")], steps)) == [NOT_RUN, None]


def test_a_repeated_call_has_the_result_of_the_first():
    steps = [
        a_reply("1", "", ("read", {"n": 1})), a_call("2", "read", {"n": 1}, result={"value": "text"}),
        a_reply("3", "", ("read", {"n": 1})), a_reply("4", "done"),
    ]  # fmt: skip
    assert results(write_history([a_turn()], steps)) == ["text", "text"]


def test_text_that_was_cut_is_never_told():
    for state in ("abandoned", "superseded", "open"):
        history = write_history([a_turn(status="cancelled")], [a_reply("1", "half of it", state=state)])
        assert "half" not in json.dumps(history)
        assert [m["role"] for m in history] == ["user", "assistant"]


def test_a_failed_answer_is_told_as_failed():
    history = write_history([a_turn(status="failed", error_code="model_auth")], [a_reply("1", state="failed")])
    assert history[-1]["content"] == "(This answer failed: model_auth.)"


def test_steps_are_told_in_the_order_of_their_paths():
    steps = [a_reply("10", "last"), a_step("9", "text", arguments={"text": "before"})]
    assert [m["content"] for m in write_history([a_turn()], steps)] == ["ask s1", "before", "last"]


def test_turns_follow_one_another_and_the_oldest_are_left_out_whole():
    turns = [a_turn(f"s{n}") for n in range(1, 5)]
    long = "x" * (MAX_CHARS // 3)
    steps = [a_reply("1", f"{n} {long}") | {"stream_id": f"s{n}"} for n in range(1, 5)]
    history = write_history(turns, steps)
    assert [m["content"] for m in history if m["role"] == "user"] == ["ask s3", "ask s4"]
    only = write_history(turns[:1], [a_reply("1", "x" * (2 * MAX_CHARS))])
    assert len(only) == 2  # the newest turn is always told


def test_a_long_result_is_cut():
    steps = [a_reply("1", "", ("read", {})), a_call("2", "read", result={"value": "y" * 10_000})]
    (told,) = [m["content"] for m in write_history([a_turn()], steps) if m["role"] == "tool"]
    assert len(told) < 7_000
    assert told.endswith("[cut: 10002 characters]")


@pytest.mark.parametrize(("stored", "text"), [("plain", "plain"), (None, ""), (5, ""), ({}, "")])
def test_whatever_a_step_has_stored_the_history_can_be_written(stored, text):
    history = write_history([a_turn()], [a_step("1", "model", result={"value": stored})])
    assert history[-1] == {"role": "assistant", "content": text}
