"""The codec: cursors, client frames, snapshots in parts, SSE."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.frames import GLUE
from runs.ids import new_id, text_id
from streaming import protocol
from streaming.protocol import Ack, BadCursor, BadFrame, Cursor, Keepalive, parse_client_frame, parse_cursor

STREAM = UUID(int=7)


@given(st.integers(0, 2**53 - 1))
def test_a_cursor_reads_back(seq: int) -> None:
    cursor = Cursor(new_id(), seq)
    assert parse_cursor(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "5", "st_:5", f"run_{STREAM.hex}:5", f"st_{STREAM.hex}", f"st_{STREAM.hex}:", f"st_{STREAM.hex}:-1",
     f"st_{STREAM.hex}:05", f"st_{STREAM.hex}:1e3", f"st_{STREAM.hex}: 5", f"st_{STREAM.hex}:９",
     f"st_{STREAM.hex}:{2**53}",
     f"st_{STREAM.hex}:5:5", "st_" + "Z" * 32 + ":5"],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_cursor(text)


def test_clients_may_acknowledge_and_be_there() -> None:
    assert parse_client_frame('{"type":"ack","seq":42,"more":1}') == Ack(42)
    assert parse_client_frame('{"type":"keepalive"}') == Keepalive()


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "5", "null", "{}", '{"type":"cancel"}', '{"type":"ack"}', '{"type":"ack","seq":-1}',
     '{"type":"ack","seq":true}', '{"type":"ack","seq":1.5}', '{"type":"ack","seq":"1"}', "[" * 50_000,
     f'{{"type":"ack","seq":{2**60}}}'],
)  # fmt: skip
def test_other_client_frames_are_refused(text: str) -> None:
    with pytest.raises(BadFrame):
        parse_client_frame(text)


def test_a_small_snapshot_is_one_frame_and_carries_its_cursor() -> None:
    (only,) = protocol.snapshot({"v": 1}, Cursor(STREAM, 9))
    assert json.loads(only.text()) == {
        "type": "snapshot", "cursor": f"st_{STREAM.hex}:9", "part": 1, "parts": 1, "view": {"v": 1}
    }  # fmt: skip


def test_a_large_snapshot_comes_in_bounded_parts_and_only_the_last_moves_the_cursor() -> None:
    view = {"text": '"\\' * 600_000}
    parts = protocol.snapshot(view, Cursor(STREAM, 9))
    assert all(len(part.text()) <= 512 * 1024 for part in parts)
    assert json.loads("".join(json.loads(part.text())["text"] for part in parts)) == view
    assert [part.cursor for part in parts] == [None] * (len(parts) - 1) + [f"st_{STREAM.hex}:9"]


def test_sse_events_carry_cursor_type_and_frame() -> None:
    frames = [b'{"seq":41,"v":1,"type":"text.delta","data":{"delta":"},\\n{"}}', b'{"seq":42,"v":1,"type":"usage"}']
    first, second = protocol.sse_events(STREAM, GLUE.join(frames)).decode().removesuffix("\n\n").split("\n\n")
    name = text_id("st", STREAM)
    assert first.split("\n") == [f"id: {name}:41", "event: text.delta", f"data: {frames[0].decode()}"]
    assert second.split("\n") == [f"id: {name}:42", "event: usage", f"data: {frames[1].decode()}"]


def test_sse_reads_a_frame_whose_fields_come_in_another_order() -> None:
    frame = b'{"type":"odd kind\\n","seq":3}'
    assert protocol.sse_events(STREAM, frame).startswith(f"id: {text_id('st', STREAM)}:3\nevent: odd_kind_\n".encode())


def test_sse_control_frames_move_no_cursor_except_the_end_of_a_snapshot() -> None:
    assert b"id:" not in protocol.sse_control(protocol.caught_up(Cursor(STREAM, 3)))
    assert protocol.sse_control(protocol.heartbeat(3)) == b": hb\n\n"
    (snapshot,) = protocol.snapshot({}, Cursor(STREAM, 9))
    assert protocol.sse_control(snapshot).startswith(f"id: st_{STREAM.hex}:9\nevent: snapshot\n".encode())


@pytest.mark.parametrize(("code", "returns"), [(1000, False), (4000, True), (4030, True), (4501, False), (4504, False)])
def test_the_range_of_a_close_code_says_whether_to_come_back(code: int, returns: bool) -> None:
    assert protocol.closing(code, "x").fields["reconnect"] is returns
