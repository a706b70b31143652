"""The socket of a page in the hand of a test: held, cut with a code, refused, or with its frames made older."""

import json
import re
from typing import Any

from playwright.sync_api import Page, WebSocketRoute

AGO = "2020-01-01T00:00:00.000Z"


class Line:
    """Every socket that a page opens from now on. Without orders it lets everything through."""

    def __init__(self, page: Page) -> None:
        self.is_refusing = False
        self.is_holding = False  # what comes after `ready` is kept back, on every socket
        self.dead: WebSocketRoute | None = None  # nothing comes over this one any more, and nobody says so
        self.is_late = False  # events look as if they had happened long ago
        self.held: list[str] = []
        self.sockets: list[WebSocketRoute] = []
        page.route_web_socket(re.compile("/ws/v1/"), self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        if self.is_refusing:
            socket.close(code=1013)
            return
        self.sockets.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda text: self._take(socket, str(text)))
        socket.on_message(server.send)

    def _take(self, socket: WebSocketRoute, text: str) -> None:
        if self.is_late:
            text = re.sub(r'"ts":"[^"]*"', f'"ts":"{AGO}"', text)
        if socket is self.dead:
            return
        if self.is_holding and '"type":"ready"' not in text:
            self.held.append(text)
        else:
            socket.send(text)

    def die(self) -> None:
        """Let the newest socket stay open and bring nothing, like one whose way was lost."""
        self.dead = self.sockets[-1]

    def release(self) -> None:
        """Let go what was held."""
        self.is_holding = False
        for text in self.held:
            self.sockets[-1].send(text)
        self.held.clear()

    def close(self, code: int, reason: str, *, retry_after: float) -> None:
        """End the newest socket as the server does, and say when to come back."""
        frame: dict[str, Any] = {"type": "closing", "code": code, "reason": reason, "reconnect": True}
        self.sockets[-1].send(json.dumps(frame | {"retry_after": retry_after}))
        self.sockets[-1].close(code=code)
