"""The kit's own judgement: a client that skips, repeats, changes or mixes up events does not pass it."""

from typing import Any, cast

import pytest

from runs.fold import fold_all
from tests.conformance.play import Case, Combination, _Play, combinations, is_seen, read_cases, sample
from tests.conformance.proxy import Proxy
from tests.conformance.readers import Frame, Wanted
from tests.conformance.site import Server

STREAM = "st_" + "2" * 32


def an_event(seq: int, kind: str = "text.delta", **more: Any) -> Frame:
    return {
        "seq": seq,
        "type": kind,
        "stream_id": STREAM,
        "attempt": 1,
        "run_id": "run_1",
        "data": {"delta": "x"},
        **more,
    }


STORED = [an_event(seq) for seq in range(1, 6)]


class Stored(Server):
    """A server of which only what is stored is asked."""

    def stored(self, run_id: str) -> list[Frame]:
        return STORED


def judge(frames: list[Frame], *, outcome: str = "ended", seconds: float = 1.0, cuts: int = 0, **expect: Any) -> None:
    case = Case("t", "c", "n", [], {})
    played = _Play(Stored("http://host", "t"), Proxy("http://host"), Combination(case, "sync", "sse"))
    played.wanted = Wanted("http://host", "t", "run_1")
    played.reader.frames, played.reader.cuts = frames, cuts
    try:
        played._judge(expect, outcome, seconds)
    finally:
        played.server.close()


def test_what_is_stored_passes() -> None:
    judge(STORED)
    snapshot = {"type": "snapshot", "view": fold_all(STORED[:3])}
    judge([{"type": "gap", "reason": "ahead"}, snapshot, *STORED[3:]], gaps=["ahead"])


@pytest.mark.parametrize(
    "frames",
    [STORED[:2] + STORED[3:], STORED[:2] + STORED[1:], STORED[1:], STORED[:-1], [],
     [*STORED[:4], an_event(5, "run.completed")], [*STORED[:4], STORED[4] | {"stream_id": "st_other"}],
     [{"type": "snapshot", "view": fold_all(STORED[:3])}, *STORED[3:]]],
    ids=["hole", "repeat", "late begin", "early end", "nothing", "another event", "another stream", "no gap"],
)  # fmt: skip
def test_what_is_not_does_not_pass(frames: list[Frame]) -> None:
    with pytest.raises(AssertionError):
        judge(frames)


@pytest.mark.parametrize(
    "how",
    [{"outcome": "StreamLost"}, {"seconds": 9.0, "within_seconds": 5}, {"cuts": 1, "most_cuts": 0},
     {"cuts": 0, "expect_cuts": 1}, {"gaps": ["ahead"]}, {"text_sha256": "0"}],
)  # fmt: skip
def test_what_a_case_expects_is_looked_at(how: dict[str, Any]) -> None:
    least = how.pop("expect_cuts", 0)
    with pytest.raises(AssertionError):
        judge(STORED, **how) if not least else _with_least_cuts(least)


def _with_least_cuts(least: int) -> None:
    case = Case("t", "c", "n", [], {})
    played = _Play(Stored("http://host", "t"), Proxy("http://host"), Combination(case, "sync", "sse"))
    played.reader.frames = list(STORED)
    try:
        played._judge({"cuts": least}, "ended", 1.0)
    finally:
        played.server.close()


def test_a_frame_or_a_view_that_has_it_was_seen() -> None:
    assert is_seen(an_event(3), {"seq": 3})
    assert not is_seen(an_event(3), {"seq": 3, "attempt": 2})
    view = cast(Frame, {"type": "snapshot", "view": {"seq": 9, "attempt": 2, "status": "completed"}})
    assert is_seen(view, {"type": "run.completed", "attempt": 2})
    assert is_seen(view, {"seq": 3})
    assert not is_seen(view, {"seq": 10})
    assert not is_seen(view, {"type": "run.failed"})
    assert is_seen({"type": "gap", "reason": "slow"}, {"gap": "slow"})


def test_each_case_has_a_name_of_its_own_and_a_sample_has_each_case_with_each_client() -> None:
    cases = read_cases()
    assert len({case.id for case in cases}) == len(cases) > 30
    assert all(case.id.startswith(case.topic) for case in cases)
    chosen = {(one.case.id, one.reader) for one in sample(cases)}
    assert chosen == {(one.case.id, one.reader) for one in combinations(cases)}
