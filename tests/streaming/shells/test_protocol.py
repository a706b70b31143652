"""The codec of the shell protocol."""

import pytest

from runs import shell_frames
from streaming.protocol import BadFrame
from streaming.shells import protocol
from streaming.shells.protocol import Painted, ReleaseControl, Resized, SignOfLife, TakeControl, Typed


def test_a_binary_frame_is_channel_offset_and_bytes() -> None:
    assert shell_frames.pack(shell_frames.OUTPUT, 258, b"hi") == b"\x01\0\0\0\0\0\0\x01\x02hi"
    assert shell_frames.unpack(shell_frames.pack(shell_frames.SCREEN, 7, b"")) == (shell_frames.SCREEN, 7, b"")
    assert protocol.read_binary(shell_frames.pack(shell_frames.INPUT, 3, b"\xff\0")) == Typed(3, b"\xff\0")


@pytest.mark.parametrize(
    "frame", [b"", b"\0\0\0", shell_frames.pack(shell_frames.OUTPUT, 0, b"x"), b"\0" + b"\xff" * 8 + b"x"]
)
def test_what_no_client_sends_is_refused(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        protocol.read_binary(frame)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type":"ack","offset":12}', Painted(12)),
        ('{"type":"resize","rows":24,"cols":80,"later":1}', Resized(24, 80)),
        ('{"type":"take_control"}', TakeControl()),
        ('{"type":"release_control"}', ReleaseControl()),
        ('{"type":"keepalive"}', SignOfLife()),
    ],
)
def test_what_clients_say_is_read(text: str, said: protocol.Said) -> None:
    assert protocol.read_text(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "5", "[" * 100_000, '{"type":7}', '{"type":"stop"}', '{"type":"ack"}', '{"type":"ack","offset":true}',
        '{"type":"ack","offset":9007199254740992}',
        '{"type":"resize","rows":24}', '{"type":"resize","rows":1001,"cols":1}',
    ],
)  # fmt: skip
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadFrame):
        protocol.read_text(text)
