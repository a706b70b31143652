"""Daphne that waits: `await send()` blocks while the transport's write buffer is above its high-water mark.

Plain Daphne writes into an unbounded buffer: one client that never reads cost 400 MB in a second (measured). This uses
Twisted's public IPushProducer and three public methods of daphne.server.Server, nothing private.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import reactor
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from streaming.budget import TRANSPORT_BYTES
from streaming.intake import Inbox

logger = logging.getLogger(__name__)

PEER_TIMEOUT_MS = 20_000  # bytes of a stream that the peer's kernel has not acknowledged for so long: it is gone
# From our close frame to the client's. Autobahn's one second cut readers that were still busy with what the kernel held
# for them, and threw the rest away (seen with 100 followers at full speed).
CLOSE_SECONDS = 10.0
CHORE_SECONDS = 1.0  # until a chore that failed is done again
INBOX = "outlive.inbox"
CONNECTION = "outlive.connection"  # where an app finds the Connection in its scope's extensions
_WAITING = frozenset({"websocket.send", "http.response.body"})


@implementer(IPushProducer)
class Flow:
    """One per connection. Twisted calls pause above the mark, resume when the buffer is empty, stop at its loss."""

    __slots__ = ("is_gone", "on_room", "paused")

    def __init__(self) -> None:
        self.paused: asyncio.Event | None = None
        self.is_gone = False
        self.on_room: Callable[[], object] | None = None  # called once, when it is paused no more

    def pauseProducing(self) -> None:
        if self.paused is None:
            self.paused = asyncio.Event()

    def resumeProducing(self) -> None:
        if self.paused is not None:
            self.paused.set()
            self.paused = None
        on_room, self.on_room = self.on_room, None
        if on_room is not None:
            on_room()

    def stopProducing(self) -> None:
        self.is_gone = True
        self.on_room = None
        self.resumeProducing()


class Connection:
    """What an app may do with its connection besides ASGI."""

    __slots__ = ("_transport",)

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def abort(self) -> None:
        """Cut it now, without waiting for what is still in its buffer."""
        self._transport.abortConnection()

    def watch_peer(self) -> None:
        """Notice a peer that vanished without a word; a stream that only writes would go on for 15 minutes."""
        handle = self._transport.getHandle()
        if hasattr(socket, "TCP_USER_TIMEOUT") and handle.family in (socket.AF_INET, socket.AF_INET6):
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MS)


class FlowServer(Server):  # type: ignore[misc]
    """daphne.server.Server whose apps feel their slow clients, and that takes WebSocket frames ready-made."""

    def __init__(self, application: Any, **options: Any) -> None:
        super().__init__(partial(_take_from_inbox, application), **options)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """Register the producer before the app runs."""
        protocol.flow = flow = Flow()
        is_socket = isinstance(protocol, WebSocketProtocol)
        transport: Any = protocol.transport if is_socket else getattr(protocol.channel, "transport", None)
        if transport is not None:
            transport.bufferSize = TRANSPORT_BYTES
            scope.setdefault("extensions", {})[CONNECTION] = Connection(transport)
        if is_socket:
            protocol.closeHandshakeTimeout = CLOSE_SECONDS
            transport.unregisterProducer()  # the HTTPChannel of the upgrade request is still registered there
            transport.registerProducer(flow, True)
            inbox = scope["extensions"][INBOX] = Inbox(transport)
            inbox.queue = super().create_application(protocol, scope)
            return None if inbox.queue is None else inbox
        protocol.registerProducer(flow, True)  # http.Request passes it to its HTTPChannel
        return super().create_application(protocol, scope)

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Write what an app sends, after waiting for room. Cancelled while waiting = nothing of it was written."""
        flow: Flow = protocol.flow
        kind = message["type"]
        if kind in _WAITING:
            while flow.paused is not None:
                await flow.paused.wait()
            if flow.is_gone:
                await asyncio.sleep(0)  # a loop of sends to a client that left must not starve the others
                return
            frame = message.get("frame")
            if frame is not None:
                if protocol.state == protocol.STATE_OPEN:
                    _write_now(protocol.transport, frame)
                return
            if kind == "http.response.body" and not message.get("more_body") and protocol.producer is flow:
                protocol.unregisterProducer()  # before finish(), else Twisted logs an error
        await super().handle_reply(protocol, message)

    def application_checker(self) -> None:
        """Put away the apps that have ended, once a second, for as long as this process lives."""
        self._keep_house(super().application_checker, self.application_checker)

    def timeout_checker(self) -> None:
        """Ping the clients that were silent, every two seconds, for as long as this process lives."""
        self._keep_house(super().timeout_checker, self.timeout_checker)

    def _keep_house(self, chore: Callable[[], None], again: Callable[[], None]) -> None:
        try:
            chore()  # comes back by itself, unless one connection raises: then Daphne did it never again
        except Exception:
            logger.exception("web.chore_failed")
            call_later: Any = reactor.callLater
            call_later(CHORE_SECONDS, again)

    def protocol_disconnected(self, protocol: Any) -> None:
        """Let a send that waits for this client end."""
        flow: Flow | None = getattr(protocol, "flow", None)
        if flow is not None:
            flow.stopProducing()
        super().protocol_disconnected(protocol)


async def _take_from_inbox(application: Any, scope: Any, receive: Any, send: Any) -> None:
    inbox = scope.get("extensions", {}).pop(INBOX, None)
    await application(scope, receive if inbox is None else partial(inbox.take, receive), send)


def _write_now(transport: Any, data: bytes) -> None:
    """Write, and where nothing waits before it, let the kernel take it at once.

    Twisted registers each write with the selector and sends in its next turn; that was a third of the cost of a
    delivery. Should its buffer get another name, this is a plain write again.
    """
    is_empty = getattr(transport, "_tempDataLen", 1) == 0 and not transport.dataBuffer
    if is_empty and transport.connected and not transport.disconnecting and not transport.TLS:
        sent = transport.writeSomeData(data)
        if isinstance(sent, int) and sent > 0:  # else it is full, or lost: write() and the reactor find out
            data = data[sent:]
    if data:
        transport.write(data)


def quiet_autobahn(module: Any) -> None:
    """Stop autobahn from colouring debug lines that nobody sees: half of its cost per frame (8.3 us -> 4.2 us)."""

    def plain(text: Any, **_: Any) -> Any:
        return text

    for name in ("hltype", "hlval", "hlid"):
        if hasattr(module, name):  # renamed upstream: then frames cost more, nothing else
            setattr(module, name, plain)
