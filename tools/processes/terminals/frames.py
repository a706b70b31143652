"""The words between a terminal's ward and those who attach to it, over a local stream socket. stdlib only.

A frame is a kind (one byte), the length of its body (4 bytes, little endian) and the body. Numbers in bodies are 8
bytes, little endian; offsets count the bytes of a direction from its start.

    attacher -> ward   HELLO json    {"role": viewer | screen | pilot | owner | agent, "from"?: offset, "generation"?,
                                  "fence"?, "quiet"?: true for no output, "line"?: id of the line asked about}
                       INPUT         offset, moment, bytes  of the pilot; void from that CLOCK_BOOTTIME (a double) on
                       SIZE json     {"rows", "cols"}    of the pilot or the owner
                       COMMAND json  {"stop": grace seconds} {"until": CLOCK_BOOTTIME} {"shut_input": true}
                                     {"stored": true}    of the owner
                       LINE json     {"id", "until": CLOCK_BOOTTIME, "over": newest pilot known of, "text"?, "keys"?,
                                  "interrupt"?}  of an agent (lines.py)
    ward -> attacher   WELCOME json  {"pid", "from", "start", "end", "taken", "rows", "cols", "sized_at", "pilot",
                                     "before", "exit"?, "lines"?}  (before: the pilot until now; lines: of an agent), or
                                     {"refused": reason} and the end
                       OUTPUT        offset, bytes
                       SKIPPED       offset from, offset to: the bytes in between are not kept any more
                       TAKEN         offset              up to which input has been passed on
                       NEWS json     {"pilot": generation} {"rows", "cols", "at": offset} {"exit", "by_itself", "end"}
                                     {"gone": true, ...} {"displaced": fence} {"input": "shut"}
                                     {"input": "gap" | "void", "taken": from where on it is to be sent (again)}
                                     {"lines": {"state", "line"?}, "answer"?: what became of a LINE}  to agents
"""

import json
import struct
from typing import Any

HELLO, INPUT, SIZE, COMMAND, LINE = b"H", b"I", b"S", b"C", b"L"
WELCOME, OUTPUT, SKIPPED, TAKEN, NEWS = b"W", b"O", b"K", b"T", b"N"

MOST_BODY_BYTES = 1 << 20
MOST_LINES = 1000  # rows, and columns
_HEAD = struct.Struct("<cI")
_OFFSET = struct.Struct("<Q")
_RANGE = struct.Struct("<QQ")
_TYPED = struct.Struct("<Qd")

Frame = tuple[bytes, bytes]


class BadFrame(ValueError):
    """The other side does not speak these words; its connection ends."""


def pack(kind: bytes, body: bytes) -> bytes:
    """Write a frame."""
    return _HEAD.pack(kind, len(body)) + body


def pack_json(kind: bytes, body: dict[str, Any]) -> bytes:
    """Write a frame with a JSON body."""
    return pack(kind, json.dumps(body).encode())


def pack_bytes(kind: bytes, offset: int, data: bytes) -> bytes:
    """Write OUTPUT: `data` begins at `offset`."""
    return pack(kind, _OFFSET.pack(offset) + data)


def pack_input(offset: int, void_at: float, data: bytes) -> bytes:
    """Write INPUT: `data` begins at `offset`, and may go in until `void_at`."""
    return pack(INPUT, _TYPED.pack(offset, void_at) + data)


def pack_taken(offset: int) -> bytes:
    """Write TAKEN."""
    return pack(TAKEN, _OFFSET.pack(offset))


def pack_skipped(begin: int, end: int) -> bytes:
    """Write SKIPPED."""
    return pack(SKIPPED, _RANGE.pack(begin, end))


def read_json(body: bytes) -> dict[str, Any]:
    """Read a JSON body. Raises: BadFrame."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a body that is no JSON") from error
    if not isinstance(value, dict):
        raise BadFrame("a body that is no object")
    return value


def read_size(body: bytes) -> dict[str, int]:
    """Read SIZE. Raises: BadFrame."""
    size = read_json(body)
    rows, cols = size.get("rows"), size.get("cols")
    if not (isinstance(rows, int) and isinstance(cols, int) and 0 < rows <= MOST_LINES and 0 < cols <= MOST_LINES):
        raise BadFrame("no size of a terminal")
    return {"rows": rows, "cols": cols}


def read_bytes(body: bytes) -> tuple[int, bytes]:
    """Read the offset and the bytes of OUTPUT. Raises: BadFrame."""
    return read_offset(body[: _OFFSET.size]), body[_OFFSET.size :]


def read_input(body: bytes) -> tuple[int, bytes, float]:
    """Read the offset, the bytes and the moment of INPUT. Raises: BadFrame."""
    if len(body) < _TYPED.size:
        raise BadFrame("input without an offset and a moment")
    offset, void_at = _TYPED.unpack_from(body)
    return offset, body[_TYPED.size :], void_at


def read_offset(body: bytes) -> int:
    """Read the offset of TAKEN. Raises: BadFrame."""
    if len(body) != _OFFSET.size:
        raise BadFrame("an offset of a wrong length")
    (offset,) = _OFFSET.unpack(body)
    return int(offset)


def read_range(body: bytes) -> tuple[int, int]:
    """Read SKIPPED. Raises: BadFrame."""
    if len(body) != _RANGE.size:
        raise BadFrame("a range of a wrong length")
    begin, end = _RANGE.unpack(body)
    return begin, end


class Reader:
    """Puts what comes over a stream socket together to frames."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes and give the frames that are whole now. Raises: BadFrame for one that is too long."""
        self._begun += data
        frames: list[Frame] = []
        at = 0
        while len(self._begun) - at >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._begun, at)
            if length > MOST_BODY_BYTES:
                raise BadFrame(f"a body of {length} bytes")
            end = at + _HEAD.size + length
            if end > len(self._begun):
                break
            frames.append((kind, bytes(self._begun[at + _HEAD.size : end])))
            at = end
        del self._begun[:at]
        return frames
