"""The reader that reads by hand: each way to break the order of frames, or to contradict oneself, is seen."""

from typing import Any

import pytest

from tests.conformance.wire import Frame, Order, _read_block

STREAM = "st_" + "2" * 32
READY: Frame = {
    "type": "ready", "v": 1, "stream_id": STREAM, "head_seq": 9, "earliest_seq": 1, "status": "running",
    "server_time": "2026-11-29T12:00:00.123Z", "heartbeat_s": 15,
}  # fmt: skip
GAP: Frame = {"type": "gap", "reason": "ahead", "requested": None, "earliest_seq": 1}
DONE: Frame = {"type": "closing", "code": 1000, "reason": "ended", "reconnect": False}


def an_event(seq: int, stream: str = STREAM) -> Frame:
    return {"seq": seq, "type": "text.delta", "stream_id": stream, "data": {}}


def a_snapshot(seq: int, **changes: Any) -> Frame:
    view = {"stream_id": STREAM, "seq": seq}
    return {"type": "snapshot", "cursor": f"{STREAM}:{seq}", "part": 1, "parts": 1, "view": view} | changes


def caught_up(seq: int) -> Frame:
    return {"type": "caught_up", "cursor": f"{STREAM}:{seq}"}


def taken(*frames: Frame, after: str | None = None) -> list[Frame]:
    order = Order(after)
    given = [given for frame in frames for given in order.take(frame)]
    order.outcome()
    return given


def test_a_stream_in_order_passes() -> None:
    assert taken(READY, an_event(1), an_event(2), caught_up(2), {"type": "heartbeat"}, an_event(3), DONE) == [
        an_event(1), an_event(2), an_event(3),
    ]  # fmt: skip
    given = taken(READY, GAP, a_snapshot(9), an_event(10), caught_up(10), DONE, after=f"{STREAM}:5000")
    assert [frame["type"] for frame in given] == ["gap", "snapshot", "text.delta"]
    assert taken(DONE | {"code": 4504}) == []


@pytest.mark.parametrize(
    "frames",
    [
        [an_event(1), READY, DONE], [caught_up(0), DONE], [READY, READY, DONE], [READY, an_event(2), DONE],
        [READY, an_event(1), an_event(1), DONE], [READY, an_event(1), an_event(2, "st_other"), DONE],
        [READY, an_event(1), caught_up(2), DONE], [READY, GAP, an_event(1), DONE], [READY, a_snapshot(9, part=2), DONE],
        [READY, a_snapshot(9, cursor=f"{STREAM}:8"), DONE], [READY, DONE, an_event(1)], [READY, an_event(1)],
        [READY, {"type": "error"}, DONE], [READY, {"type": "surprise"}, DONE], [READY | {"earliest_seq": 11}, DONE],
        [READY, DONE | {"reconnect": True}], [READY, GAP | {"reason": "x"}, a_snapshot(9), DONE],
    ],
)  # fmt: skip
def test_whatever_breaks_it_is_seen(frames: list[Frame]) -> None:
    with pytest.raises(AssertionError):
        taken(*frames)


def test_an_sse_event_says_the_same_three_times() -> None:
    data = f'{{"seq":1,"type":"text.delta","stream_id":"{STREAM}"}}'
    good = [f"id: {STREAM}:1", "event: text.delta", f"data: {data}"]
    assert _read_block(good) == {"seq": 1, "type": "text.delta", "stream_id": STREAM}
    assert _read_block([": hb"]) is None
    assert _read_block(["retry: 2000"]) is None
    for bad in (good[1:], [f"id: {STREAM}:2", *good[1:]], [good[0], "event: x", good[2]], [*good, good[2]]):
        with pytest.raises(AssertionError):
            _read_block(bad)
