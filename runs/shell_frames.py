"""The binary frames of a shell's socket, as both of its sides write and read them. Pure.

channel (1 byte), offset (8 bytes, big endian), bytes
channels   0 input (client to server), 1 output, 2 a screen, written as output that paints it
"""

import struct

INPUT, OUTPUT, SCREEN = 0, 1, 2
MOST_OFFSET = 2**53 - 1
_HEAD = struct.Struct(">BQ")


class NoShellFrame(ValueError):
    """Bytes that are no frame of a shell's socket."""


def pack(channel: int, offset: int, data: bytes) -> bytes:
    """Write a binary frame."""
    return _HEAD.pack(channel, offset) + data


def unpack(frame: bytes) -> tuple[int, int, bytes]:
    """Read a binary frame: channel, offset, bytes. Raises: NoShellFrame."""
    if len(frame) < _HEAD.size:
        raise NoShellFrame("a binary frame without an offset")
    channel, offset = _HEAD.unpack_from(frame)
    if offset > MOST_OFFSET:
        raise NoShellFrame("an offset that no number holds")
    return channel, offset, frame[_HEAD.size :]
