"""Which deltas may be joined. That joined logs fold to the same is tested on random logs (tests/runs/test_fold.py)."""

from typing import Any

import pytest

from runs.compaction import MAX_SPAN, MAX_TEXT, coalesce, find_spans


def a_delta(seq: int, text: str = "x", **changes: Any) -> dict[str, Any]:
    frame = {"seq": seq, "v": 1, "type": "text.delta", "run_id": "run_1", "attempt": 1, "stream_id": "st_1", "ts": "t"}
    frame |= {"step_id": "step_1", "data": {"message_id": "m", "delta": text}}
    return frame | changes


def ranges(*frames: Any) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in find_spans(frames)]


def test_consecutive_deltas_of_one_text_become_one_frame() -> None:
    (joined,) = coalesce([a_delta(3, "Hel"), a_delta(4, ""), a_delta(5, "lo")])
    data = {"message_id": "m", "from_seq": 3, "to_seq": 5, "text": "Hello"}
    assert joined == {**a_delta(5), "type": "text.compacted", "data": data}


def test_a_hole_is_never_covered() -> None:
    assert ranges(a_delta(3), a_delta(4), a_delta(6), a_delta(7)) == [(3, 4), (6, 7)]
    assert ranges(a_delta(3), a_delta(3)) == []


def test_a_single_delta_stays_as_it_is() -> None:
    assert list(coalesce([a_delta(3)])) == [a_delta(3)]


@pytest.mark.parametrize(
    "other",
    [
        {"data": {"message_id": "n", "delta": "x"}}, {"stream_id": "st_2"}, {"run_id": "run_2"}, {"attempt": 2},
        {"step_id": "step_2"}, {"type": "usage"}, {"data": {"message_id": "m", "delta": 5}}, {"data": None},
        {"data": {"message_id": 5, "delta": "x"}}, {"attempt": True}, {"step_id": None}, {"seq": "4"},
    ],
)  # fmt: skip
def test_what_differs_is_not_joined(other: dict[str, Any]) -> None:
    between = {**a_delta(4), **other}
    assert ranges(a_delta(2), a_delta(3), between, a_delta(5), a_delta(6)) == [(2, 3), (5, 6)]
    assert list(coalesce([between])) == [between]


def test_a_frame_is_bounded_in_seqs_and_characters() -> None:
    many = [a_delta(seq) for seq in range(1, 2 * MAX_SPAN + 2)]
    assert ranges(*many) == [(1, MAX_SPAN), (MAX_SPAN + 1, 2 * MAX_SPAN)]
    half = "x" * (MAX_TEXT // 2)
    assert ranges(*(a_delta(seq, half) for seq in range(1, 6))) == [(1, 2), (3, 4)]
    assert ranges(a_delta(1, "x" * MAX_TEXT), a_delta(2), a_delta(3)) == [(2, 3)]


def test_only_texts_that_may_be_joined_are() -> None:
    mixed = [a_delta(1), a_delta(2), *(a_delta(n, data={"message_id": "n", "delta": "x"}) for n in (3, 4))]
    assert [(s.first, s.last) for s in find_spans(mixed, may_join=lambda message_id: message_id == "n")] == [(3, 4)]
