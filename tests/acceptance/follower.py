"""A reader of a run over WebSocket, from outside: it keeps every event, its cursor, and what it was told."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.stack import LiveStack


class Follower:
    """Connects, collects, can be cut at any time, and comes back with its cursor."""

    def __init__(self, stack: LiveStack, run_id: str, *, role: str = "viewer") -> None:
        self.stack, self.run_id, self.role = stack, run_id, role
        self.events: list[dict[str, Any]] = []
        self.control: list[dict[str, Any]] = []
        self.socket: ClientConnection | None = None
        self._open = ExitStack()

    @property
    def cursor(self) -> str:
        """The last event that was applied."""
        return f"{self.events[-1]['stream_id']}:{self.events[-1]['seq']}" if self.events else ""

    @property
    def port(self) -> int:
        """The local port of the connection."""
        assert self.socket is not None
        return int(self.socket.socket.getsockname()[1])

    def open(self) -> "Follower":
        """Connect, from the cursor where there is one."""
        base = self.stack.base_url.replace("http", "ws", 1)
        after = f"after={self.cursor}&" if self.events else ""
        self.close()
        connection = connect(
            f"{base}/ws/v1/runs/{self.run_id}/?{after}role={self.role}",
            additional_headers={"Authorization": f"Bearer {self.stack.token}"},
            max_size=None,
            close_timeout=1,
        )
        self.socket = self._open.enter_context(connection)
        return self

    def close(self) -> None:
        """Close what is open; may be called again."""
        self._open.close()

    def cut(self) -> None:
        """Drop the connection without a goodbye."""
        assert self.socket is not None
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    def frames(self, seconds: float = 60.0) -> Iterator[dict[str, Any]]:
        """Yield frames until the connection ends; events are kept."""
        assert self.socket is not None
        while True:
            try:
                message = json.loads(self.socket.recv(timeout=seconds))
            except ConnectionClosed:
                return
            for frame in message if isinstance(message, list) else [message]:
                (self.events if "seq" in frame else self.control).append(frame)
                yield frame

    def until(self, kind: str, *, count: int = 1) -> dict[str, Any]:
        """Read until the count-th frame of this type."""
        for frame in self.frames():
            if frame["type"] == kind:
                count -= 1
                if count == 0:
                    return frame
        raise AssertionError(f"the stream ended before {kind}: {[e['type'] for e in self.events[-5:]]}")

    def to_the_end(self) -> None:
        """Read until the server closes."""
        for _ in self.frames():
            pass
