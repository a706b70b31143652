"""What a person reads of a run's frames."""

from typing import Any

from runs.cli.telling import Teller, describe_effect
from tests.runs.cli.conftest import QUESTION_ID, RUN_ID, a_frame


def tell(*frames: dict[str, Any]) -> list[str]:
    teller = Teller(RUN_ID)
    return [line for frame in frames for line in teller.tell(frame)]


def start(seq: int, message: str = "msg_1", label: str | None = None) -> dict[str, Any]:
    return a_frame(seq, "text.start", {"message_id": message, "role": "assistant", "label": label})


def delta(seq: int, text: str, message: str = "msg_1") -> dict[str, Any]:
    return a_frame(seq, "text.delta", {"message_id": message, "delta": text})


def end(seq: int, final: bool = True, message: str = "msg_1", reason: str = "stop") -> dict[str, Any]:
    return a_frame(seq, "text.end", {"message_id": message, "final": final, "reason": reason})


def test_text_is_told_line_by_line_whatever_its_pieces() -> None:
    assert tell(start(1), delta(2, "one "), delta(3, "line\ntwo"), delta(4, " lines\n\nthree"), end(5)) == [
        "one line",
        "two lines",
        "",
        "three",
    ]


def test_parallel_texts_say_whose_line_it_is() -> None:
    lines = tell(
        start(1, "a", "first"), start(2, "b", "second"), delta(3, "x\n", "a"), delta(4, "y\n", "b"),
        end(5, message="a"), delta(6, "z", "b"), end(7, message="b"),
    )  # fmt: skip
    assert [line for line in lines if not line.startswith("12:00:01  ")] == ["[first] x", "[second] y", "z"]


def test_cut_text_is_marked_as_no_final_answer() -> None:
    assert tell(start(1), delta(2, "half"), end(3, final=False))[-1].endswith("interrupted; it is not a final answer)")
    superseded = tell(start(1), delta(2, "half"), end(3, final=False, reason="superseded"))
    assert "begun again after a worker was lost" in superseded[-1]


def test_a_snapshot_tells_only_what_was_not_told_before() -> None:
    view = {
        "status": "running",
        "messages": [
            {"message_id": "msg_0", "text": "told before", "state": "final", "label": None},
            {"message_id": "msg_1", "text": "half of it\nand the rest", "state": "final", "label": None},
            {"message_id": "msg_2", "text": "thrown away", "state": "superseded", "label": None},
            {"message_id": "msg_3", "text": "still\nrunning", "state": "open", "label": None},
        ],
    }
    lines = tell(
        start(1, "msg_0"), delta(2, "told before", "msg_0"), end(3, message="msg_0"),
        start(4), delta(5, "half of"),
        {"type": "gap", "reason": "trimmed"},
        {"type": "snapshot", "view": view},
        delta(90, " on", "msg_3"), end(91, message="msg_3"),
    )  # fmt: skip
    assert lines == [
        "told before", "Older detail was trimmed; rebuilt from the saved state.",
        "half of it", "and the rest", "still", "running on",
    ]  # fmt: skip


def test_a_question_names_the_command_that_answers_it() -> None:
    lines = tell(a_frame(1, "input.requested", {"question_id": QUESTION_ID, "prompt": "Send \x1b[31mit?"}))
    assert lines == [
        "12:00:01  asks: Send it?",
        f"12:00:01  answer with: outlive run answer {RUN_ID} {QUESTION_ID} VALUE",
    ]


def test_a_stop_lists_what_was_done() -> None:
    effects = [
        {"name": "create_invoice", "outcome": "committed", "proof": "http 201"},
        {"name": "x", "outcome": "unknown"},
    ]
    assert tell(a_frame(1, "run.cancelled", {"reason": "user", "effects": effects})) == [
        "12:00:01  Stopped (user)",
        "12:00:01    create_invoice: already done (http 201)",
        "12:00:01    x: sent, outcome not known yet",
    ]


def test_compacted_text_counts_like_its_deltas() -> None:
    compacted = a_frame(9, "text.compacted", {"message_id": "msg_1", "from_seq": 2, "to_seq": 9, "text": "all\nof it"})
    assert tell(start(1), compacted, end(10)) == ["all", "of it"]


def test_any_frame_is_told_without_an_error() -> None:
    odd: list[Any] = [None, 1, "x", [], {}, {"message_id": 1, "delta": None}, {"effects": [1], "error": "x"}]
    kinds = [
        "run.started", "run.waiting", "run.failed", "run.cancelled", "run.needs_reconciliation", "step.started",
        "step.finished", "text.start", "text.delta", "text.end", "text.compacted", "tool.unknown", "input.requested",
        "artifact.created", "gap", "snapshot", "something.new",
    ]  # fmt: skip
    teller = Teller(RUN_ID)
    for kind in kinds:
        for data in odd:
            teller.tell(a_frame(1, kind) | {"data": data, "ts": 5})
            teller.tell({"type": kind, "view": data})


def test_an_effect_without_a_known_word_is_still_shown() -> None:
    assert describe_effect({"outcome": "something_new"}) == "a step: something_new"


def test_children_are_told_by_id_and_how_they_ended() -> None:
    lines = tell(
        a_frame(1, "child.started", {"child_id": "run_1", "agent": "probe", "title": "Read a.pdf"}),
        a_frame(2, "child.finished", {"child_id": "run_1", "status": "needs_reconciliation"}),
        a_frame(3, "child.settled", {"child_id": "run_1", "status": "completed"}),
    )
    assert [line.partition("  ")[2] for line in lines] == [
        "began run_1  Read a.pdf", "run_1: Being verified", "run_1: Completed",
    ]  # fmt: skip


def test_a_command_is_told_and_that_a_stop_ended_it() -> None:
    given = {"tool": "shell_run", "arguments": {"shell": "1", "command": "make\nls\x1b[2J"}}
    error = {"code": "stopped", "message": "The command was stopped (user)."}
    lines = tell(
        a_frame(1, "step.started", {"path": "2", "kind": "tool", "name": "shell_run"}),
        a_frame(2, "tool.started", given),
        a_frame(3, "tool.result", {"ok": False, "stopped": True, "error": error}),
        a_frame(4, "step.finished", {"path": "2", "kind": "tool", "state": "failed", "error": error}),
        a_frame(5, "step.started", {"path": "3", "kind": "child", "name": "shell"}),
        a_frame(6, "child.finished", {"child_id": "run_2", "status": "cancelled"}),
        a_frame(7, "step.finished", {"path": "3", "kind": "child", "state": "failed", "error": error}),
        a_frame(8, "step.started", {"path": "4", "kind": "tool", "name": "send_mail"}),
        a_frame(9, "tool.result", {"ok": False, "error": error}),
        a_frame(10, "step.finished", {"path": "4", "kind": "tool", "state": "failed", "error": error}),
    )
    assert [line[10:] for line in lines] == [
        "step 2 shell_run", "$ make ls", "step 2 shell_run stopped", "run_2: Stopped", "step 3 shell stopped",
        "step 4 send_mail", "step 4 send_mail failed: The command was stopped (user).",
    ]  # fmt: skip
