"""A reader of its own that takes nothing on trust: one connection, read by hand, held against docs/PROTOCOL.md.

It shares no code with the clients under test. What it looks at on every connection: `ready` first and only once;
events between `ready` and `closing`, each following the last; `gap` and `snapshot` together; `caught_up` at the cursor;
ids, names and data of SSE events saying the same; close code and `closing` saying the same; ASCII everywhere.
"""

import contextlib
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

type Frame = dict[str, Any]
READY = {"v", "stream_id", "head_seq", "earliest_seq", "status", "server_time", "heartbeat_s"}
FINALS = {1000: "ended", 4500: "BadProtocol", 4501: "NotSignedIn", 4503: "Forbidden", 4504: "UnknownRun"}
STATUSES = {400: "BadProtocol", 401: "NotSignedIn", 403: "Forbidden", 404: "UnknownRun", 204: "ended"}
SECONDS = 120.0
APP = Subprotocol("app.v1")


@dataclass
class Order:
    """What has come so far on one connection. `take` gives what a client would be given."""

    after: str | None
    kinds: list[str] = field(default_factory=list)
    here: tuple[str | None, int] = (None, 0)
    pieces: list[str] = field(default_factory=list)
    closing: Frame | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            stream, _, seq = self.after.partition(":")
            self.here = (stream, int(seq) if seq.isdigit() else 0)

    def take(self, frame: Frame) -> list[Frame]:
        """Judge one frame. Raises: AssertionError."""
        assert self.closing is None, f"{frame} after closing"
        kind = frame["type"]
        assert kind != "error", "no frame is ever called error: a browser cannot tell it from a lost connection"
        if "seq" in frame:
            return [self._event(frame)]
        assert (kind == "ready") == (not self.kinds) or kind == "closing", f"{kind} after {self.kinds}"
        self.kinds.append(kind)
        return list(getattr(self, f"_{kind}", self._other)(frame))

    def _ready(self, frame: Frame) -> Iterator[Frame]:
        assert set(frame) >= READY, f"ready lacks {READY - set(frame)}"
        assert 1 <= frame["earliest_seq"] <= frame["head_seq"] + 1
        yield from ()

    def _gap(self, frame: Frame) -> Iterator[Frame]:
        assert frame["reason"] in {"trimmed", "ahead", "other_stream", "new_attempt", "slow"}
        assert self.pieces == []
        yield frame

    def _snapshot(self, frame: Frame) -> Iterator[Frame]:
        assert frame["part"] == len(self.pieces) + 1
        self.pieces.append(json.dumps(frame["view"]) if frame["parts"] == 1 else frame["text"])
        if frame["part"] == frame["parts"]:
            view, self.pieces = json.loads("".join(self.pieces)), []
            self.here = (view["stream_id"], view["seq"])
            assert frame["cursor"] == f"{view['stream_id']}:{view['seq']}"
            yield {"type": "snapshot", "cursor": frame["cursor"], "view": view}

    def _caught_up(self, frame: Frame) -> Iterator[Frame]:
        stream, seq = self.here
        assert frame["cursor"] == f"{stream}:{seq}", f"caught up at {frame['cursor']}, given up to {stream}:{seq}"
        yield from ()

    def _closing(self, frame: Frame) -> Iterator[Frame]:
        assert frame["reconnect"] == (4000 <= frame["code"] < 4500)
        self.closing = frame
        yield from ()

    def _other(self, frame: Frame) -> Iterator[Frame]:
        assert frame["type"] in {"heartbeat", "problem"}, f"what is {frame['type']}?"
        yield from ()

    def _event(self, frame: Frame) -> Frame:
        assert self.kinds, "an event before ready"
        assert self.kinds[-1] != "gap", "an event between a gap and its snapshot"
        stream, known = self.here
        assert stream in (None, frame["stream_id"])
        first = frame["data"]["from_seq"] if frame["type"] == "text.compacted" else frame["seq"]
        assert first == known + 1, f"{frame['seq']} after {known}"
        self.here = (frame["stream_id"], frame["seq"])
        return frame

    def outcome(self) -> str:
        """Say how it ended. Raises: AssertionError when nothing was said before the end."""
        assert self.closing is not None, f"the connection ended without closing, after {self.kinds}"
        return FINALS.get(self.closing["code"], f"closed with {self.closing['code']}")


def read_websocket(base: str, token: str, run_id: str, after: str | None, *, is_tail: bool) -> Iterator[Frame | str]:
    """Yield what a client would be given, and at last the outcome."""
    query = "&".join(([f"after={quote(after)}"] if after else []) + (["tail=1"] if is_tail else []))
    url = f"{base.replace('http', 'ws', 1)}/ws/v1/runs/{run_id}/?{query}"
    order = Order(after)
    headers = {"Authorization": f"Bearer {token}"}
    with connect(url, additional_headers=headers, compression=None, max_size=None, subprotocols=[APP]) as socket:
        assert socket.subprotocol == APP
        with contextlib.suppress(ConnectionClosed):
            while True:
                text = socket.recv(timeout=SECONDS)
                assert isinstance(text, str)
                assert text.isascii()
                message = json.loads(text)
                assert isinstance(message, dict) == (
                    "seq" not in (message[0] if isinstance(message, list) else message)
                )
                for frame in message if isinstance(message, list) else [message]:
                    yield from order.take(frame)
        assert order.closing is not None
        assert socket.close_code == order.closing["code"]
    yield order.outcome()


def read_sse(base: str, token: str, run_id: str, after: str | None, *, is_tail: bool) -> Iterator[Frame | str]:
    """Yield what a client would be given, and at last the outcome."""
    at = urlsplit(base)
    order = Order(after)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"} | (
        {"Last-Event-ID": after} if after else {}
    )
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(
            "GET", f"{at.path}/api/v1/runs/{run_id}/events{'?tail=1' if is_tail else ''}", headers=headers
        )
        with connection.getresponse() as answer:
            if answer.status != 200:
                answer.read()
                yield STATUSES[answer.status]
                return
            assert answer.headers["Content-Type"] == "text/event-stream"
            for block in _blocks(answer):
                if (frame := _read_block(block)) is not None:
                    yield from order.take(frame)
        yield order.outcome()


def _blocks(answer: http.client.HTTPResponse) -> Iterator[list[str]]:
    """Split at empty lines; a line ends with \\n and with nothing else."""
    block: list[str] = []
    while line := answer.readline():
        assert line.endswith(b"\n"), "the answer ended inside of a line"
        text = line[:-1].decode("ascii")
        assert "\r" not in text
        if text:
            block.append(text)
        elif block:
            yield block
            block = []
    assert block == [], "the answer ended inside of an event"


def _read_block(block: list[str]) -> Frame | None:
    fields = dict(line.split(": ", 1) for line in block)
    assert len(fields) == len(block), f"a field comes twice in {block}"
    if set(fields) <= {"", "retry"}:
        return None  # a comment, or the time to wait
    frame: Frame = json.loads(fields["data"])
    assert fields["event"] == frame["type"]
    cursor = f"{frame['stream_id']}:{frame['seq']}" if "seq" in frame else frame.get("cursor")
    moves = "seq" in frame or (frame["type"] == "snapshot" and frame["part"] == frame["parts"])
    assert fields.get("id") == (cursor if moves else None), f"the id of {frame['type']} is {fields.get('id')}"
    return frame
