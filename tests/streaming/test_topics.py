"""Streams and feeds without I/O."""

from typing import Any
from uuid import UUID

import pytest

from runs.ids import text_id
from streaming.budget import RingBudget
from streaming.reader import Reader
from streaming.reads import Row
from streaming.topics import MAX_KNOWN, MAX_PENDING, BadBell, Feed, Stream
from streaming.wires import TEXT

RUN, STREAM, OTHER, TENANT = (UUID(int=n) for n in range(1, 5))


def row(**changes: Any) -> Row:
    fields: dict[str, Any] = {"run_id": RUN, "stream_id": STREAM, "attempt": 1, "status": "running", "last_seq": 5}
    return Row(**(fields | {"floor_seq": 1} | changes))


def test_a_stream_learns_head_floor_end_and_successor_from_the_row() -> None:
    stream = Stream(RUN, STREAM, RingBudget())
    assert stream.learn(row(floor_seq=3))
    assert (stream.ring.head, stream.floor, stream.ended_at, stream.successor) == (5, 3, None, None)
    assert not stream.learn(row(floor_seq=3))
    assert stream.learn(row(status="completed", last_seq=6))
    assert stream.ended_at == 6
    assert stream.learn(row(stream_id=OTHER, last_seq=1))
    assert stream.successor == OTHER
    assert stream.ring.head == 6


@pytest.mark.parametrize(
    ("body", "is_due"),
    [
        (b'{"seq":1,"v":1,"type":"text.delta"}', False),
        (b'{"seq":1,"v":1,"type":"run.completed"}', True),
        (b'{"seq":1,"v":1,"type":"run.needs_reconciliation"}', True),
        (b"", True),
    ],
)
def test_a_doorbell_that_may_be_the_end_asks_for_a_look_at_the_row(body: bytes, is_due: bool) -> None:
    stream = Stream(RUN, STREAM, RingBudget())
    assert stream.hear(b"1 1 " + body)
    assert stream.is_due is is_due


@pytest.mark.parametrize("payload", [b"", b"1", b"x 1 y", b"1 2"])
def test_an_unreadable_doorbell_is_refused(payload: bytes) -> None:
    with pytest.raises(BadBell):
        Stream(RUN, STREAM, RingBudget()).hear(payload)
    with pytest.raises(BadBell):
        Feed(TENANT).hear(payload)


def bell(run_id: UUID, version: int) -> bytes:
    return f"{text_id('run', run_id)} {version}".encode()


def test_a_feed_tells_each_follower_the_newest_version_once() -> None:
    feed, ann, bob = Feed(TENANT), Reader(TEXT), Reader(TEXT)
    feed.readers |= {ann, bob}
    assert not feed.learn({RUN: 3})
    assert feed.hear(bell(RUN, 4))
    assert feed.hear(bell(RUN, 6))
    assert not feed.hear(bell(RUN, 5))
    assert not feed.learn({RUN: 6})
    assert feed.take(ann) == {RUN: 6}
    assert feed.take(ann) == {}
    assert feed.learn({RUN: 7})
    assert feed.take(bob) == {RUN: 7}


def test_what_a_feed_keeps_for_one_follower_is_bounded() -> None:
    feed, reader = Feed(TENANT), Reader(TEXT)
    feed.readers.add(reader)
    for n in range(MAX_PENDING + 10):
        feed.hear(bell(UUID(int=n), 1))
    taken = feed.take(reader)
    assert len(taken) == MAX_PENDING
    assert UUID(int=MAX_PENDING + 9) in taken


def test_what_a_feed_remembers_is_bounded_and_what_it_forgot_it_tells_again() -> None:
    feed, reader = Feed(TENANT), Reader(TEXT)
    feed.readers.add(reader)
    for n in range(MAX_KNOWN):
        feed.hear(bell(UUID(int=n), 1))
    assert feed.hear(bell(UUID(int=0), 2))  # changes again: now the newest one
    assert feed.hear(bell(UUID(int=MAX_KNOWN), 1))
    assert not feed.hear(bell(UUID(int=0), 2))
    assert feed.hear(bell(UUID(int=1), 1))


def test_a_stream_that_nobody_follows_holds_nothing() -> None:
    budget = RingBudget()
    stream = Stream(RUN, STREAM, budget)
    stream.hear(b"1 1 x")
    assert budget.held_bytes == 1
    stream.close()
    assert budget.held_bytes == 0
