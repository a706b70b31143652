"""The reader's rules: each event once and in order, the cursor behind the caller, waits, ends, any cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.reading.errors import BadProtocol, Forbidden, NotSignedIn, OutOfStep, StreamLost, StreamRefused, UnknownRun
from runs.reading.items import Event, Gap, Item, Note, Snapshot
from runs.reading.machine import Reading, read_message

STREAM, OTHER = "st_" + "2" * 32, "st_" + "9" * 32


def an_event(seq: int, kind: str = "text.delta", stream: str = STREAM, **data: Any) -> dict[str, Any]:
    return {"seq": seq, "v": 1, "type": kind, "stream_id": stream, "data": data}


def a_snapshot(seq: int, stream: str = STREAM) -> dict[str, Any]:
    return {"type": "snapshot", "cursor": f"{stream}:{seq}", "part": 1, "parts": 1, "view": {"seq": seq}}


def parts_of(view: dict[str, Any], cursor: str, size: int) -> list[dict[str, Any]]:
    text = json.dumps(view)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    about = {"type": "snapshot", "cursor": cursor, "parts": len(pieces)}
    return [{**about, "part": n, "text": piece} for n, piece in enumerate(pieces, 1)]


def give(reading: Reading, *frames: Any) -> list[Item]:
    """Take frames and apply what they give."""
    items: list[Item] = []
    for frame in frames:
        for item in reading.take(frame):
            items.append(item)
            reading.applied(item)
    return items


def begun(after: str | None = None, **options: Any) -> Reading:
    reading = Reading(after, **options)
    reading.begin()
    return reading


def test_events_come_once_and_in_order_and_repeats_are_ignored() -> None:
    reading = begun()
    items = give(reading, an_event(1), an_event(2), an_event(1), an_event(2), an_event(3))
    assert [item.seq for item in items if isinstance(item, Event)] == [1, 2, 3]
    assert reading.cursor == f"{STREAM}:3"


def test_the_cursor_moves_only_when_the_event_is_applied() -> None:
    reading = begun()
    (item,) = reading.take(an_event(1))
    assert reading.cursor is None
    reading.applied(item)
    assert reading.cursor == f"{STREAM}:1"


@pytest.mark.parametrize(
    "frame",
    [an_event(7), an_event(1, stream=OTHER), an_event(6, stream=OTHER), {"seq": 6, "type": "x"},
     {"seq": "6", "type": "x", "stream_id": STREAM}, {"type": 5}, [], None, "text", {}],
)  # fmt: skip
def test_what_does_not_follow_drops_the_connection_and_moves_nothing(frame: Any) -> None:
    reading = begun(f"{STREAM}:5")
    with pytest.raises(OutOfStep):
        reading.take(frame)
    assert reading.cursor == f"{STREAM}:5"


def test_without_a_cursor_only_the_first_event_follows() -> None:
    with pytest.raises(OutOfStep):
        begun().take(an_event(2))


def test_unknown_control_frames_and_unknown_types_of_events_are_no_trouble() -> None:
    reading = begun()
    items = give(reading, {"type": "brand_new", "x": 1}, an_event(1, "brand.new"))
    assert [type(item) for item in items] == [Note, Event]


def test_a_gap_is_told_with_its_snapshot_which_moves_the_cursor() -> None:
    reading = begun(f"{STREAM}:5")
    gap = {"type": "gap", "requested": f"{STREAM}:5", "earliest_seq": 41, "reason": "trimmed"}
    assert give(reading, gap) == []
    reading.begin()  # cut between the two: it is not told twice
    items = give(reading, gap, a_snapshot(50), an_event(51))
    assert [type(item) for item in items] == [Gap, Snapshot, Event]
    assert isinstance(items[0], Gap)
    assert items[0].reason == "trimmed"
    assert reading.cursor == f"{STREAM}:51"


def test_a_new_attempt_goes_on_in_its_own_stream() -> None:
    reading = begun(f"{STREAM}:40")
    give(reading, {"type": "gap", "reason": "new_attempt"}, a_snapshot(2, OTHER), an_event(3, stream=OTHER))
    assert reading.cursor == f"{OTHER}:3"


def test_a_snapshot_in_parts_comes_as_one_and_half_of_it_moves_nothing() -> None:
    view = {"seq": 50, "messages": [{"text": "x" * 100}]}
    parts = parts_of(view, f"{STREAM}:50", 30)
    reading = begun(f"{STREAM}:5")
    assert give(reading, *parts[:2]) == []
    assert reading.cursor == f"{STREAM}:5"
    reading.begin()
    (snapshot,) = give(reading, *parts)
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.view, snapshot.cursor) == (view, f"{STREAM}:50")


@pytest.mark.parametrize("damage", ["swapped", "repeated", "broken", "nested", "endless", "no cursor"])
def test_a_damaged_snapshot_drops_the_connection(damage: str) -> None:
    parts = parts_of({"text": "x" * 60}, f"{STREAM}:50", 20)
    if damage == "swapped":
        parts[0], parts[1] = parts[1], parts[0]
    elif damage == "repeated":
        parts.insert(1, parts[0])
    elif damage == "broken":
        parts[1]["text"] = ""
        parts[0]["text"] = "["
    elif damage == "nested":
        parts = [{**parts[0], "parts": 1, "text": "[" * 100_000}]
    elif damage == "endless":
        parts = [{**parts[0], "part": n} for n in range(1, 10)]
    else:
        del parts[-1]["cursor"]
    reading = begun(f"{STREAM}:5")
    with pytest.raises(OutOfStep):
        give(reading, *parts)
    assert reading.cursor == f"{STREAM}:5"


def test_the_parts_of_a_snapshot_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.reading.machine.MOST_SNAPSHOT_CHARS", 100)
    parts = parts_of({"text": "x" * 200}, f"{STREAM}:50", 20)
    with pytest.raises(OutOfStep):
        give(begun(), *parts)
    reading = begun()
    for _ in range(4):  # what was taken whole does not count for the next one
        give(reading, *parts_of({"text": "x" * 50}, f"{STREAM}:50", 20))


@pytest.mark.parametrize("cursor", ["garbage", ":7", "st:", "st:-1", "st:²", "s t:7", f"{STREAM}:7\r\nX: 1", "\ud83d:7",
                                    f"{STREAM}:" + "9" * 5000, "a:b:7"])  # fmt: skip
def test_what_is_no_cursor_never_becomes_ours(cursor: str) -> None:
    reading = begun(f"{STREAM}:5")
    with pytest.raises(OutOfStep):
        reading.take(a_snapshot(7) | {"cursor": cursor})
    stream, _, seq = cursor.rpartition(":")
    with pytest.raises(OutOfStep):
        begun().take(an_event(1, stream=stream if seq == "7" else "a:b"))
    assert reading.cursor == f"{STREAM}:5"


def test_compacted_text_stands_for_all_of_its_deltas() -> None:
    reading = begun(f"{STREAM}:2")
    give(reading, an_event(9, "text.compacted", from_seq=3, to_seq=9, text="abc"), an_event(10))
    assert reading.cursor == f"{STREAM}:10"
    assert give(reading, an_event(9, "text.compacted", from_seq=3, to_seq=9, text="abc")) == []


@pytest.mark.parametrize("data", [{"from_seq": 4}, {"from_seq": 2}, {"from_seq": 10}, {"from_seq": "3"}, {}, None])
def test_compacted_text_that_does_not_begin_after_the_cursor_drops_the_connection(data: Any) -> None:
    reading = begun(f"{STREAM}:2")
    with pytest.raises(OutOfStep):
        reading.take(an_event(9, "text.compacted") | {"data": data})


def test_closing_ends_the_stream_or_the_connection_or_is_final() -> None:
    reading = begun(uniform=lambda low, high: low)
    give(reading, {"type": "closing", "code": 4030, "reason": "server_restart", "retry_after": 7})
    assert (reading.is_closed, reading.is_over, reading.lost("x", now=0.0)) == (True, False, 7.0)
    reading.begin()
    assert reading.lost("x", now=0.0) == 0.5
    reading.begin()
    give(reading, {"type": "closing", "code": 1000, "reason": "ended"})
    assert reading.is_over


@pytest.mark.parametrize(
    ("asked", "waits"), [(10**400, 3600.0), (1e999, 3600.0), (-5, 0.5), (float("nan"), 0.5), (True, 0.5), ("9", 0.5)]
)
def test_a_server_that_asks_for_what_cannot_be_waited_for_gets_an_hour_or_nothing(asked: Any, waits: float) -> None:
    reading = begun(uniform=lambda low, high: low)
    give(reading, {"type": "closing", "code": 4013, "retry_after": asked})
    assert reading.lost("x", now=0.0) == waits
    reading.begin()
    assert reading.lost("x", now=0.0, retry_after=float("inf")) == 3600.0


def test_a_server_that_asks_to_stay_away_past_the_stated_time_is_given_up_at_once() -> None:
    reading = begun(give_up_seconds=300.0)
    assert reading.lost("busy", now=0.0, retry_after=299.0) >= 299.0
    with pytest.raises(StreamLost):
        begun(give_up_seconds=300.0).lost("busy", now=0.0, retry_after=301.0)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(4500, BadProtocol), (4501, NotSignedIn), (4503, Forbidden), (4504, UnknownRun), (4777, StreamRefused)],
)
def test_a_final_code_is_an_error_of_its_own_kind(code: int, kind: type[StreamRefused]) -> None:
    with pytest.raises(kind) as refused:
        begun().take({"type": "closing", "code": code, "reason": "why"})
    assert (refused.value.code, refused.value.reason) == (code, "why")


def test_waits_have_full_jitter_grow_and_start_again_after_progress() -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    reading = begun(uniform=uniform)
    waits = [reading.lost("x", now=0.0) for _ in range(50)]
    assert waits[:6] == [1, 2, 4, 8, 16, 20]
    assert set(waits[6:]) == {20}
    assert {low for low, _ in asked} == {0.5}
    give(reading, {"type": "ready"}, {"type": "heartbeat"})
    assert reading.lost("x", now=0.0) == 20  # it connects, and gets nowhere
    give(reading, {"type": "caught_up"})
    assert reading.lost("x", now=0.0) == 1
    give(reading, an_event(1))
    assert reading.lost("x", now=0.0) == 1


def test_it_gives_up_after_the_stated_time_without_progress() -> None:
    reading = begun(give_up_seconds=300.0)
    for now in (0.0, 200.0):
        reading.lost("x", now=now)
    give(reading, an_event(1))
    for now in (400.0, 700.0):
        reading.lost("x", now=now)
    with pytest.raises(StreamLost) as lost:
        reading.lost("no route", now=701.0)
    assert (lost.value.cursor, lost.value.reason) == (f"{STREAM}:1", "no route")


def test_a_message_is_one_frame_or_several() -> None:
    assert read_message('{"type":"ready"}') == [{"type": "ready"}]
    assert read_message('[{"seq":1},\n{"seq":2}]') == [{"seq": 1}, {"seq": 2}]
    for text in ("", "<html>", "[" * 100_000):
        with pytest.raises(OutOfStep):
            read_message(text)


@given(
    head=st.integers(1, 30),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=8),
    is_trimmed=st.booleans(),
)
def test_whatever_is_cut_repeated_or_trimmed_the_events_are_the_stored_ones(
    head: int, cuts: list[tuple[int, int]], is_trimmed: bool
) -> None:
    """A server that gives what follows the cursor, repeats some of it, and is cut after so many frames."""
    reading, seen, floor = Reading(), [], 1
    for length, repeats in [*cuts, (10**6, 0)]:
        reading.begin()
        known = int((reading.cursor or ":0").split(":")[1])
        frames = [an_event(seq) for seq in range(max(1, known + 1 - repeats), head + 1)]
        if is_trimmed and known < floor - 1:
            frames = [
                {"type": "gap", "reason": "trimmed"},
                a_snapshot(floor),
                *map(an_event, range(floor + 1, head + 1)),
            ]
        for item in give(reading, *frames[:length]):
            if isinstance(item, Snapshot):
                seen = list(range(1, item.view["seq"] + 1))
            elif isinstance(item, Event):
                seen.append(item.seq)
        floor = min(head, floor + 3)
    assert seen == list(range(1, head + 1))
