"""The stream protocol as pure functions: control frames, close codes, cursors, and both encodings.

docs/PROTOCOL.md is the normative text. Event frames come ready-made from runs/frames.py; joined frames are
`frame,\\nframe`. A WebSocket message is one control frame or `[frame,\\nframe]`; an SSE chunk is one or more events.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from runs.frames import GLUE
from runs.ids import BadId, parse_id, text_id

HEARTBEAT_SECONDS = 15.0
SNAPSHOT_BYTES = 512 * 1024  # a snapshot up to this is one frame
PIECE_CHARS = 250_000  # of a larger one: JSON in a JSON string doubles at worst, so a part stays below 512 KiB
RETRY_MS = 2000
SUBPROTOCOL = "app.v1"
MAX_SEQ = 2**53 - 1


class Close:
    """Close codes. 4000-4499: come back with your cursor; 4500-4999: do not come back by yourself."""

    DONE = 1000
    SLOW = 4000
    BUSY = 4013
    CROWDED = 4029
    DRAIN = 4030
    BAD_PROTOCOL = 4500
    NOT_SIGNED_IN = 4501
    FORBIDDEN = 4503
    UNKNOWN_RUN = 4504


class GapReason(StrEnum):
    """Why the events after a cursor cannot simply be sent."""

    TRIMMED = "trimmed"
    AHEAD = "ahead"
    OTHER_STREAM = "other_stream"
    NEW_ATTEMPT = "new_attempt"
    SLOW = "slow"


class BadFrame(ValueError):
    """A client frame that is not one of ours."""


class BadCursor(ValueError):
    """Not `<stream_id>:<seq>`."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last event that a client has applied."""

    stream_id: UUID
    seq: int

    def __str__(self) -> str:
        return f"{text_id('st', self.stream_id)}:{self.seq}"


def parse_cursor(text: str) -> Cursor:
    """Read `st_<32 hex>:<seq>`. Raises: BadCursor."""
    stream, _, digits = text.partition(":")
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", digits) or int(digits) > MAX_SEQ:
        raise BadCursor(text[:80])
    try:
        return Cursor(parse_id("st", stream), int(digits))
    except BadId as error:
        raise BadCursor(text[:80]) from error


@dataclass(frozen=True, slots=True)
class Ack:
    """The client has applied everything up to this seq."""

    seq: int


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The client is there."""


def parse_client_frame(text: str) -> Ack | Keepalive:
    """Read a frame from a WebSocket client. Unknown fields are ignored. Raises: BadFrame."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame("not JSON") from error
    if not isinstance(frame, dict):
        raise BadFrame("not an object")
    if frame.get("type") == "keepalive":
        return Keepalive()
    seq = frame.get("seq")
    if frame.get("type") == "ack" and isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq <= MAX_SEQ:
        return Ack(seq)
    raise BadFrame("neither an ack nor a keepalive")


@dataclass(frozen=True, slots=True)
class Control:
    """A control frame: no seq, moves no cursor. `cursor` is set on the last part of a snapshot only.

    Parts of a snapshot are large and go to many: they are written once (`written`), and have no fields.
    """

    type: str
    fields: Mapping[str, Any]
    cursor: str | None = None
    written: str = ""

    def text(self) -> str:
        """Write it as JSON."""
        return self.written or json.dumps({"type": self.type, **self.fields}, separators=(",", ":"))


def ready(*, stream_id: UUID, head_seq: int, earliest_seq: int, status: str, server_time: str, **more: Any) -> Control:
    """Say where the stream stands when it is opened; `more` is what a run socket grants (role, generation, grace)."""
    fields = {
        "v": 1, "stream_id": text_id("st", stream_id), "head_seq": head_seq, "earliest_seq": earliest_seq,
        "status": status, "server_time": server_time, "heartbeat_s": HEARTBEAT_SECONDS, **more,
    }  # fmt: skip
    return Control("ready", fields)


def caught_up(cursor: Cursor) -> Control:
    """Say that everything stored so far was sent; what follows is live."""
    return Control("caught_up", {"cursor": str(cursor)})


def heartbeat(head_seq: int) -> Control:
    """Say that the connection is alive and how far the stream is."""
    return Control("heartbeat", {"head_seq": head_seq})


def gap(*, requested: Cursor | None, earliest_seq: int, reason: GapReason) -> Control:
    """Say that the events after `requested` are not sent, and why; a snapshot follows."""
    fields = {"requested": None if requested is None else str(requested), "earliest_seq": earliest_seq}
    return Control("gap", {**fields, "reason": reason.value})


def snapshot(view: Mapping[str, Any], cursor: Cursor) -> list[Control]:
    """Write a view as parts; the text of all parts, joined, is the view's JSON."""
    text = json.dumps(view, separators=(",", ":"))
    at = str(cursor)
    if len(text) <= SNAPSHOT_BYTES:
        return [_snapshot_part(at, 1, 1, f'"view":{text}')]
    pieces = [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]
    n = len(pieces)
    return [_snapshot_part(at, i, n, f'"text":{json.dumps(piece)}') for i, piece in enumerate(pieces, 1)]


def _snapshot_part(at: str, part: int, parts: int, content: str) -> Control:
    written = f'{{"type":"snapshot","cursor":"{at}","part":{part},"parts":{parts},{content}}}'
    return Control("snapshot", {}, cursor=at if part == parts else None, written=written)


def closing(code: int, reason: str, *, retry_after: float | None = None) -> Control:
    """Announce the close of a connection. Daphne drops a close's reason, so it has to be said here."""
    reconnect = 4000 <= code < 4500
    return Control("closing", {"code": code, "reason": reason, "reconnect": reconnect, "retry_after": retry_after})


def problem(code: str, message: str) -> Control:
    """Name something that is wrong but does not end the stream."""
    return Control("problem", {"code": code, "message": message})


# Our own encoder writes these three first (runs/frames.py); the type has no character that needs escaping.
_HEAD = re.compile(rb'\{"seq":(\d+),"v":1,"type":"([a-z_.]+)"')


def json_list(body: bytes) -> bytes:
    """Make one WebSocket message of joined frames."""
    return b"[" + body + b"]"


def sse_events(stream_id: UUID, body: bytes) -> bytes:
    """Make SSE events of joined frames: id is the cursor, event the type, data the frame."""
    at = text_id("st", stream_id).encode()
    before, match = b"id: %b:" % at, _HEAD.match
    parts: list[bytes] = []
    for frame in body.split(GLUE):  # 1 us an event; a regex that replaces in place costs five times that
        head = match(frame)
        if head is None:
            parts.append(_sse_event(at, frame))
        else:
            seq, kind = head.groups()
            parts += (before, seq, b"\nevent: ", kind, b"\ndata: ", frame, b"\n\n")
    return b"".join(parts)


def _sse_event(at: bytes, frame: bytes) -> bytes:
    """Make an SSE event of a frame that another encoder wrote."""
    read = json.loads(frame)
    kind = re.sub(r"[^a-z_.]", "_", str(read["type"]))
    return b"id: %b:%d\nevent: %b\ndata: %b\n\n" % (at, read["seq"], kind.encode(), frame)


def sse_control(control: Control) -> bytes:
    """Make an SSE event of a control frame. It has an id only where it moves the cursor (the end of a snapshot)."""
    if control.type == "heartbeat":
        return b": hb\n\n"
    at = f"id: {control.cursor}\n" if control.cursor else ""
    return f"{at}event: {control.type}\ndata: {control.text()}\n\n".encode()
