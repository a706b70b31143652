"""Reading over connections: the next one begins at the cursor, after a wait, and only where there is more to come."""

from collections.abc import Generator
from typing import Any

import pytest

from runs.reading.errors import Cut, NotSignedIn, StreamLost
from runs.reading.items import Event
from runs.reading.loop import read_on
from runs.reading.machine import Reading
from tests.runs.reading.test_machine import STREAM, an_event

END = {"type": "closing", "code": 1000, "reason": "ended"}


class Line:
    """Connections that are played one after the other; an error in a play is raised there."""

    def __init__(self, *plays: list[Any]) -> None:
        self.reading, self.plays = Reading(uniform=lambda low, high: low), list(plays)
        self.asked_after: list[str | None] = []
        self.waits: list[float] = []
        self.cuts: list[str] = []
        self.closed = 0

    def connect(self) -> Generator[Any]:
        self.asked_after.append(self.reading.cursor)
        try:
            for frame in self.plays.pop(0):
                if isinstance(frame, Exception):
                    raise frame
                yield frame
        finally:
            self.closed += 1

    def read(self) -> list[int]:
        items = read_on(
            self.reading, self.connect, on_cut=lambda reason, wait: self.cuts.append(reason), sleep=self.waits.append
        )
        return [item.seq for item in items if isinstance(item, Event)]


def test_each_connection_begins_at_the_cursor() -> None:
    line = Line([an_event(1), an_event(2), Cut("reset")], [], [an_event(2), an_event(3), END, an_event(4)])
    assert line.read() == [1, 2, 3]
    assert line.asked_after == [None, f"{STREAM}:2", f"{STREAM}:2"]
    assert line.cuts == ["reset", "the server closed the stream"]
    assert line.closed == 3


def test_a_hole_is_a_cut() -> None:
    line = Line([an_event(1), an_event(3)], [an_event(2), an_event(3), END])
    assert line.read() == [1, 2, 3]
    assert "does not follow" in line.cuts[0]


def test_it_waits_as_long_as_was_asked() -> None:
    line = Line([Cut("busy", retry_after=9.0)], [{"type": "closing", "code": 4013, "retry_after": 4}], [END])
    line.read()
    assert line.waits == [9.0, 4.0]


def test_the_last_word_and_giving_up_are_raised() -> None:
    with pytest.raises(NotSignedIn):
        Line([{"type": "closing", "code": 4501, "reason": "not_signed_in"}]).read()
    reading, times = Reading(give_up_seconds=10.0), iter([0.0, 11.0])
    line = Line([Cut("x")], [Cut("y")])
    with pytest.raises(StreamLost):
        list(read_on(reading, line.connect, sleep=lambda seconds: None, clock=lambda: next(times)))


def test_a_caller_that_leaves_closes_the_connection() -> None:
    line = Line([an_event(1), an_event(2)])
    items = read_on(line.reading, line.connect)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert (line.closed, line.reading.cursor) == (1, None)
