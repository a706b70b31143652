"""What clients send, bounded: a client that says much, or hangs up in the middle of it, costs a bounded amount.

Daphne queues whatever comes, however slowly its app takes it (120 MB in 12 s of small frames of one client, measured),
autobahn answers each ping of a client that never reads (110 MB), and keeps each empty piece of a message that never
ends. Public classes and methods of Twisted, autobahn and Daphne only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import main, tcp

INBOX_BYTES = 256 * 1024  # of one client, that its app has not taken yet: then its socket is read no further
MESSAGE_BYTES = 512  # what a message costs besides its text, roughly
MOST_PIECES = 1024  # of one message
OFFERED = "sec-websocket-protocol"


class Inbox:
    """The queue between Daphne and the app of one WebSocket, as Daphne sees it."""

    __slots__ = ("_bytes", "_is_full", "_transport", "queue")

    def __init__(self, transport: Any) -> None:
        self.queue: asyncio.Queue[dict[str, Any]] | None = None
        self._transport = transport
        self._bytes = 0
        self._is_full = False

    def put_nowait(self, message: dict[str, Any]) -> None:
        """Take what has come. Never refused: what is full is the socket, of which nothing more is read then."""
        assert self.queue is not None  # set before Daphne can know of this inbox
        self._bytes += _cost(message)
        self.queue.put_nowait(message)
        if self._bytes > INBOX_BYTES and not self._is_full:
            self._is_full = True
            self._transport.pauseProducing()

    async def take(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Give the app what came first, and read on where there is room again."""
        message = await receive()
        self._bytes -= _cost(message)
        if self._is_full and self._bytes <= INBOX_BYTES // 2:
            self._is_full = False
            self._transport.resumeProducing()
        return message


def _cost(message: dict[str, Any]) -> int:
    return len(message.get("bytes") or message.get("text") or "") + MESSAGE_BYTES


class BoundedSocket(WebSocketProtocol):  # type: ignore[misc]
    """Daphne's WebSocket. `flow` is set by streaming/flow.py before anything can come."""

    def onConnect(self, request: Any) -> Any:
        """Let Daphne see no offered subprotocol that it cannot decode: it would be a traceback and a 500."""
        if not request.headers.get(OFFERED, "").isascii():
            del request.headers[OFFERED]
        return super().onConnect(request)

    def onPing(self, payload: bytes) -> None:
        """Answer once the client takes what is written, and then the last ping alone (RFC 6455 section 5.5.3)."""
        if self.state == self.STATE_OPEN and self.flow.paused is not None:
            self.flow.on_room = lambda: self.onPing(payload)
        else:
            super().onPing(payload)

    def onMessageFrameBegin(self, length: int) -> None:
        """Cut a client that tears a message to pieces; empty ones count for nothing in the bound on its bytes."""
        if len(self.message_data) >= MOST_PIECES:
            self.dropConnection(abort=True)
        super().onMessageFrameBegin(length)


class Transport(tcp.Server):
    """Twisted's connection, that ends when its peer has reset it.

    uvloop watches a socket with an error no longer. Twisted reads once, and where there was something to read it never
    hears of the end: the connection stayed for ever, and whoever wrote to it next got a RuntimeError (seen).
    """

    def doRead(self) -> Any:
        """Read, and see whether the peer is still there."""
        ended = super().doRead()
        if ended is None and self.connected:
            try:
                self.socket.getpeername()
            except OSError:
                return main.CONNECTION_LOST
        return ended


def bound_sockets(server: Any, port: Any) -> None:
    """Let every new connection of a listening server be one of ours."""
    port.transport = Transport
    server.ws_factory.protocol = BoundedSocket
