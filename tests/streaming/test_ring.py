"""The ring: exactly what follows a cursor, or nothing."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from runs.frames import GLUE
from streaming.ring import Chunk, Ring

STREAM = UUID(int=7)


def body(first: int, count: int) -> bytes:
    return GLUE.join(b"<%d>" % seq for seq in range(first, first + count))


BELLS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5), st.booleans()), max_size=30)


@given(BELLS, st.integers(0, 40), st.integers(1, 60))
def test_whatever_bells_come_a_chunk_has_no_hole_and_begins_behind_the_cursor(
    bells: list[tuple[int, int, bool]], cursor: int, max_bytes: int
) -> None:
    ring = Ring(STREAM, max_bytes)
    for first, count, is_full in bells:
        ring.add(first, count, body(first, count) if is_full else b"")
        chunk = ring.after(cursor)
        if chunk is not None:
            assert chunk.body == body(cursor + 1, chunk.last - cursor)
            assert chunk.last <= ring.head


def test_repeated_and_old_bells_say_nothing_new() -> None:
    ring = Ring(STREAM)
    assert ring.add(1, 3, body(1, 3))
    assert not ring.add(1, 3, body(1, 3))
    assert not ring.add(2, 1, body(2, 1))
    chunk = ring.after(0)
    assert chunk is not None
    assert (chunk.last, chunk.body) == (3, body(1, 3))


def test_bells_that_are_waiting_are_joined() -> None:
    ring = Ring(STREAM)
    ring.add(1, 2, body(1, 2))
    ring.add(3, 2, body(3, 2))
    chunk = ring.after(0)
    assert chunk is not None
    assert chunk.body == body(1, 4)


def test_a_lost_bell_sends_those_behind_it_to_the_database() -> None:
    ring = Ring(STREAM)
    ring.add(1, 2, body(1, 2))
    ring.add(5, 1, body(5, 1))
    assert ring.after(2) is None
    chunk = ring.after(4)
    assert chunk is not None
    assert chunk.body == body(5, 1)


def test_the_ring_is_bounded_in_bytes_but_keeps_its_newest_entry() -> None:
    ring = Ring(STREAM, 10)
    for seq in range(1, 100):
        ring.add(seq, 1, b"x" * 9)
    assert ring.after(97) is None
    assert ring.after(98) is not None


def test_a_chunk_is_encoded_once_for_all_followers() -> None:
    calls: list[bytes] = []

    def encode(stream_id: UUID, joined: bytes) -> bytes:
        calls.append(joined)
        return joined.upper()

    ring = Ring(STREAM)
    ring.add(1, 1, b"a")
    chunks = [ring.after(0) for _ in range(3)]
    assert [chunk.form(encode) for chunk in chunks if isinstance(chunk, Chunk)] == [b"A"] * 3
    assert calls == [b"a"]
