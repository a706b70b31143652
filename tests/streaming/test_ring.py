"""The ring: exactly what follows a cursor, or nothing."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.frames import GLUE
from streaming.budget import RingBudget
from streaming.ring import FORMS, Chunk, Ring

STREAM = UUID(int=7)


def body(first: int, count: int) -> bytes:
    return GLUE.join(b"<%d>" % seq for seq in range(first, first + count))


BELLS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5), st.booleans()), max_size=30)


@given(BELLS, st.integers(0, 40), st.integers(1, 60))
def test_whatever_bells_come_a_chunk_has_no_hole_and_begins_behind_the_cursor(
    bells: list[tuple[int, int, bool]], cursor: int, max_bytes: int
) -> None:
    ring = Ring(STREAM, RingBudget(), max_bytes)
    for first, count, is_full in bells:
        ring.add(first, count, body(first, count) if is_full else b"")
        chunk = ring.after(cursor)
        if chunk is not None:
            assert chunk.body == body(cursor + 1, chunk.last - cursor)
            assert chunk.last <= ring.head


def test_repeated_and_old_bells_say_nothing_new() -> None:
    ring = Ring(STREAM, RingBudget())
    assert ring.add(1, 3, body(1, 3))
    assert not ring.add(1, 3, body(1, 3))
    assert not ring.add(2, 1, body(2, 1))
    chunk = ring.after(0)
    assert chunk is not None
    assert (chunk.last, chunk.body) == (3, body(1, 3))


def test_an_event_that_the_database_told_of_first_leaves_the_ring_whole() -> None:
    """Its doorbell is on the way: those who have read the event already go on with what comes next."""
    ring = Ring(STREAM, RingBudget())
    ring.add(1, 2, body(1, 2))
    assert ring.advance(4)
    assert ring.after(2) is None
    assert not ring.add(3, 2, body(3, 2))
    ring.add(5, 1, body(5, 1))
    for cursor in (0, 2, 4):
        chunk = ring.after(cursor)
        assert chunk is not None
        assert chunk.body == body(cursor + 1, 5 - cursor)


def test_all_rings_together_are_bounded_and_the_coldest_is_emptied() -> None:
    budget = RingBudget(max_bytes=100)
    cold, warm = Ring(STREAM, budget), Ring(UUID(int=8), budget)
    cold.add(1, 1, b"x" * 60)
    warm.add(1, 1, b"x" * 60)
    assert (cold.after(0), cold.head) == (None, 1)
    assert warm.after(0) is not None
    warm.clear()
    assert budget.held_bytes == 0


def test_bells_that_are_waiting_are_joined() -> None:
    ring = Ring(STREAM, RingBudget())
    ring.add(1, 2, body(1, 2))
    ring.add(3, 2, body(3, 2))
    chunk = ring.after(0)
    assert chunk is not None
    assert chunk.body == body(1, 4)


def test_a_lost_bell_sends_those_behind_it_to_the_database() -> None:
    ring = Ring(STREAM, RingBudget())
    ring.add(1, 2, body(1, 2))
    ring.add(5, 1, body(5, 1))
    assert ring.after(2) is None
    chunk = ring.after(4)
    assert chunk is not None
    assert chunk.body == body(5, 1)


def test_a_joined_message_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.ring.CHUNK_BYTES", 10)
    ring = Ring(STREAM, RingBudget())
    for seq, size in enumerate((4, 6, 9, 30, 1), 1):
        ring.add(seq, 1, b"x" * size)
    ends, cursor = [], 0
    while cursor < 5:
        chunk = ring.after(cursor)
        assert chunk is not None
        cursor = chunk.last
        ends.append(cursor)
    assert ends == [2, 3, 4, 5]


def test_the_ring_is_bounded_in_bytes_but_keeps_its_newest_entry() -> None:
    ring = Ring(STREAM, RingBudget(), 10)
    for seq in range(1, 100):
        ring.add(seq, 1, b"x" * 9)
    assert ring.after(97) is None
    assert ring.after(98) is not None


def test_a_chunk_is_encoded_once_for_all_followers() -> None:
    calls: list[bytes] = []

    def encode(stream_id: UUID, joined: bytes) -> bytes:
        calls.append(joined)
        return joined.upper()

    ring = Ring(STREAM, RingBudget())
    ring.add(1, 1, b"a")
    chunks = [ring.after(0) for _ in range(3)]
    assert [chunk.form(encode) for chunk in chunks if isinstance(chunk, Chunk)] == [b"A"] * 3
    assert calls == [b"a"]


def test_the_newest_chunk_counts_with_what_is_encoded_of_it() -> None:
    budget = RingBudget()
    ring = Ring(UUID(int=1), budget)
    ring.add(1, 1, b"x" * 100)
    assert budget.held_bytes == 100
    assert ring.after(0) is not None
    assert budget.held_bytes == 100 + FORMS * 100
