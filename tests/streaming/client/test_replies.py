"""Acknowledgements: the first events at once, then 64 at a time or 64 KiB, and all at the head; heartbeats answered."""

import json
from typing import Any

from runs.reading.machine import Reading
from streaming.client.replies import ACK_CHARS, KEEPALIVE, Replies

STREAM = "st_" + "2" * 32


def an_answer(replies: Replies, reading: Reading, seq: int, *, chars: int = 10, kind: str = "text.delta") -> Any:
    reading.cursor = f"{STREAM}:{seq}"
    text = replies.to([{"type": kind}], chars)
    return None if text is None else json.loads(text)


def test_it_acknowledges_the_first_events_and_then_in_portions() -> None:
    reading = Reading()
    replies = Replies(reading)
    assert replies.to([{"type": "ready"}], 10) is None
    asked = [an_answer(replies, reading, seq) for seq in range(1, 140)]
    assert [answer["seq"] for answer in asked if answer] == [1, 65, 129]
    assert an_answer(replies, reading, 140, kind="caught_up") == {"type": "ack", "seq": 140}
    assert an_answer(replies, reading, 141, chars=ACK_CHARS) == {"type": "ack", "seq": 141}
    assert an_answer(replies, reading, 141, kind="caught_up") is None


def test_it_answers_heartbeats_and_follows_a_new_stream_down() -> None:
    reading = Reading(f"{STREAM}:90")
    replies = Replies(reading)
    assert an_answer(replies, reading, 90)["seq"] == 90
    assert replies.to([{"type": "heartbeat"}], 10) == KEEPALIVE
    reading.cursor = "st_" + "9" * 32 + ":3"
    assert replies.to([{"type": "caught_up"}], 10) == '{"type": "ack", "seq": 3}'
