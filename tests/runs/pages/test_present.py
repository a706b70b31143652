import json
from typing import Any

import pytest
from django.utils import translation

from runs.fold import empty_view, fold_all
from runs.pages import present


def view_of(*events: tuple[str, dict[str, Any]], step: str | None = "step_1") -> dict[str, Any]:
    frames = [
        {"seq": n, "run_id": "run_1", "stream_id": "st_1", "attempt": 1, "type": kind, "step_id": step,
         "ts": f"2026-01-01T12:00:{n:02d}.000Z", "data": data}
        for n, (kind, data) in enumerate(events, 1)
    ]  # fmt: skip
    return fold_all(frames)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (0.44, "0.4 s"), (9.99, "9.9 s"), (12.3, "12 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")],
)
def test_lengths_of_time_are_short(seconds, text):
    assert present.write_seconds(seconds) == text


def test_a_step_of_unknown_kind_state_and_shape_is_shown_too():
    view = view_of(
        ("step.started", {"path": 7, "kind": "dance", "name": {"a": 1}, "effect": []}),
        ("step.finished", {"state": "exploded", "error": ["x"]}),
    )
    shown = present.show_steps(view)[0]
    assert shown["name"] == '{"a":1}'
    assert shown["error"] == '["x"]'


def test_superseded_text_is_left_out_and_interrupted_text_stays():
    view = view_of(
        ("step.started", {"path": "1", "kind": "model", "name": "local"}),
        ("text.start", {"message_id": "msg_1"}),
        ("text.delta", {"message_id": "msg_1", "delta": "old"}),
        ("text.end", {"message_id": "msg_1", "final": False, "reason": "superseded"}),
        ("text.start", {"message_id": "msg_2", "label": "Summary"}),
        ("text.delta", {"message_id": "msg_2", "delta": "new"}),
        ("text.end", {"message_id": "msg_2", "final": False, "reason": "stop"}),
    )
    shown = present.show_steps(view)[0]
    assert [(m["text"], m["state"]) for m in shown["messages"]] == [("new", "interrupted")]
    assert shown["name"] == "Summary"


def test_what_a_stop_dropped_is_no_error():
    view = view_of(
        ("step.started", {"path": "1", "kind": "model", "name": "local"}),
        ("step.finished", {"state": "abandoned", "error": {"code": "cancelled", "message": "dropped"}}),
    )
    assert present.show_steps(view)[0]["error"] == ""


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (None, ("", "")),
        ("plain", ("plain", "")),
        ({"answer": "yes", "n": 1}, ("yes", '{\n  "n": 1\n}')),
        ({"answer": "yes"}, ("yes", "")),
        ([1], ("", "[\n  1\n]")),
        (0, ("", "")),
        (7, ("", "7")),
    ],
)
def test_a_result_is_its_main_text_and_the_rest(result, shown):
    assert present.show_result(empty_view() | {"result": result}) == shown


def test_a_result_that_is_the_last_answer_is_not_said_twice():
    view = empty_view() | {"result": "same ", "messages": [{"text": " same", "state": "final"}]}
    assert present.show_result(view) == ("", "")
    assert present.show_result(view | {"result": {"answer": "same", "n": 1}}) == ("", "")


def test_the_receipt_survives_entries_of_any_shape():
    effects: Any = [
        {"name": "a", "outcome": "committed", "external_id": "INV-1", "proof": "http 201"},
        "x",
        {"outcome": []},
        {},
    ]
    lines = present.show_effects(effects)
    assert (lines[0]["name"], lines[0]["proof"]) == ("a", "INV-1 · http 201")
    assert [str(line["word"].text) for line in lines] == ["already done", "may have happened", "may have happened"]


def test_by_what_an_outcome_is_known_is_said_in_words_of_the_reader():
    effects: Any = [{"outcome": "committed", "proof": "look_up"}, {"outcome": "committed", "proof": "constructor"}]
    assert [e["proof"] for e in present.show_effects(effects)] == ["found by asking the target", "constructor"]
    with translation.override("zh-hans"):
        assert present.show_effects(effects)[0]["proof"] == "已向目标查询确认"


def test_arguments_that_were_not_given_are_not_in_the_hint():
    assert present.one_line({"query": "x", "documents": None, "note": "", "limit": 0}) == "query: x, limit: 0"


def test_the_blank_step_has_every_slot_and_says_nothing():
    blank = present.show_blank()
    assert not blank["has_facts"]
    assert json.dumps([f["name"] for f in blank["facts"]])
    assert {f["text"] for f in blank["facts"]} == {""}


@pytest.mark.parametrize(
    ("state", "shown"), [("dispatched", "being undone"), ("succeeded", "undone"), ("failed", "done"), ("odd", "done")]
)
def test_what_became_of_undoing_an_effect_stands_on_its_card(state, shown):
    view = view_of(
        ("step.started", {"path": "1", "kind": "tool", "name": "create_invoice", "effect": "idempotent"}),
        ("tool.started", {"tool": "create_invoice", "effect": "idempotent", "operation_key": "k"}),
        ("tool.dispatched", {"operation_key": "k", "operation_id": "op_1"}),
        ("tool.result", {"ok": True, "value": {}}),
        ("compensation.finished", {"operation_id": "op_1", "state": state}),
    )
    assert present.show_steps(view)[0]["outcome"].text == shown


def a_call(**arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tool.started", {"tool": "shell_run", "effect": "write", "arguments": arguments, "operation_key": "k"}


STEP = ("step.started", {"path": "1", "kind": "tool", "name": "shell_run", "effect": "write"})


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (" ls -la \n", "$ ls -la"),
        ("cd /srv \nmake\n", "$ cd /srv…"),
        ("x" * 80, "$ " + "x" * 80),
        ("x" * 81, "$ " + "x" * 80 + "…"),
        ("\n ", "shell_run"),
        (7, "shell_run"),
    ],
)
def test_a_command_is_the_title_of_its_step(command, title):
    assert present.show_steps(view_of(STEP, a_call(command=command)))[0]["name"] == title


def test_a_tool_that_only_has_a_field_of_that_name_keeps_its_own():
    view = view_of(STEP, ("tool.started", a_call(command="ls")[1] | {"tool": "send_mail"}))
    assert present.show_steps(view)[0]["name"] == "shell_run"


def test_a_command_that_a_stop_ended_is_no_refusal():
    error = {"code": "stopped", "message": "The command was stopped (user)."}
    ended = ("tool.result", {"ok": False, "stopped": True, "error": error, "proof": "process tree empty"})
    sent = ("tool.dispatched", {"operation_id": "op_1", "operation_key": "k"})
    view = view_of(STEP, a_call(command="ls"), sent, ended, ("step.finished", {"state": "failed", "error": error}))
    shown = present.show_steps(view)[0]
    assert (shown["state"], shown["state_word"].tone, shown["outcome"].text) == ("stopped", "grey", "stopped")
    assert shown["error"] == ""


def test_a_command_whose_end_only_the_receipt_knows_is_stopped_too():
    """Its worker had died: the stop's end closed the step, and read the ward's proof."""
    effects = [{"operation_id": "op_1", "outcome": "stopped"}]
    view = view_of(
        STEP, a_call(command="ls"), ("tool.dispatched", {"operation_id": "op_1", "operation_key": "k"}),
        ("step.finished", {"state": "abandoned"}), ("run.cancelled", {"reason": "user", "effects": effects}),
    )  # fmt: skip
    shown = present.show_steps(view)[0]
    assert (shown["state"], shown["state_word"].text, shown["outcome"].text) == ("abandoned", "stopped", "stopped")


def test_a_child_that_has_ended_looks_as_if_it_had():
    """Neither its sign nor its words are those of work that goes on."""
    view = view_of(
        ("step.started", {"path": "1", "kind": "child", "name": "shell"}),
        ("child.started", {"child_id": "run_2", "agent": "shell", "title": "depot"}),
        ("child.finished", {"child_id": "run_2", "status": "cancelled"}),
        ("step.finished", {"state": "failed", "error": {"code": "child_cancelled", "message": "stopped"}}),
    )
    shown = present.show_steps(view)[0]
    assert (shown["state"], shown["outcome"].text) == ("stopped", "Stopped")
    assert (shown["error"], shown["error_tone"]) == ("child_cancelled: stopped", "grey")
    assert "running" not in (shown["kind_word"].icon, shown["state_word"].icon, shown["outcome"].icon)
