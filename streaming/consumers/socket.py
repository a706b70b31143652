"""What every socket of ours does: accept, let in or close with a reason, send while receiving, end in order."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from django.db import Error

from streaming import protocol
from streaming.access import Admitted, Credentials, admit, read_credentials
from streaming.current import current_hub
from streaming.flow import CONNECTION
from streaming.hub import DATABASE_ERRORS, Hub
from streaming.protocol import SUBPROTOCOL, BadFrame, Close, parse_client_frame
from streaming.reader import Ending, Reader
from streaming.wires import FRAMES, TEXT

logger = logging.getLogger(__name__)

BAD_PROTOCOL = Ending(Close.BAD_PROTOCOL, "bad_protocol")
BUSY = Ending(Close.BUSY, "database_away", 2.0)
FAILED = Ending(Close.BUSY, "server_error", 2.0)

type Admission = Callable[[Credentials, UUID | None], Admitted | Ending]
ClientFrame = protocol.Ack | protocol.Keepalive


class Socket:
    """One accepted WebSocket."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.is_gone = False  # the client has left, there is nothing to close
        self.query = {key: values[-1] for key, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
        self.wire = FRAMES if CONNECTION in scope.get("extensions", {}) else TEXT
        self.reader = Reader(self.wire)

    async def open(self, what: UUID | None, *, by: Admission = admit) -> tuple[Hub, Admitted] | None:
        """Accept, and let the client in to a run, or whatever `by` knows; None when it was closed instead.

        It is accepted first, for a browser sees nothing of a refused handshake but 1006.
        """
        if (await self.receive())["type"] != "websocket.connect":
            return None
        offered = SUBPROTOCOL in self.scope.get("subprotocols", ())
        await self.send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if offered else None})
        try:
            hub = await current_hub()
            found = await asyncio.to_thread(by, read_credentials(self.scope["headers"]), what)
        except (*DATABASE_ERRORS, Error) as error:
            logger.warning("socket.database_away", extra={"error": repr(error)})
            found = BUSY
        if isinstance(found, Ending):
            await self.close(found)
            return None
        self.reader.who = found.who
        return hub, found

    async def close(self, ending: Ending, *, is_announced: bool = False) -> None:
        """Say why, then close."""
        if not is_announced:
            frame = protocol.closing(ending.code, ending.reason, retry_after=ending.retry_after)
            await self.send(self.wire.control(frame))
        await self.send({"type": "websocket.close", "code": ending.code, "reason": ending.reason})

    async def serve(self, items: AsyncGenerator[Any, None], on_frame: Callable[[ClientFrame], None]) -> None:
        """Send what `items` gives while taking the client's frames; close when either ends."""
        is_open = True
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send_all(items))
                receiving = group.create_task(self._receive_all(on_frame))
                self.reader.evict = sending.cancel
                await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
                is_open = not receiving.done()
                sending.cancel()
                receiving.cancel()
        except* Exception as errors:
            logger.error("socket.failed", exc_info=errors)
            self.reader.ending = FAILED
        if is_open and self.reader.ending is not None:
            await self.close(self.reader.ending, is_announced=True)

    async def _send_all(self, items: AsyncGenerator[Any, None]) -> None:
        async with contextlib.aclosing(items):
            async for item in items:
                await self.send(item)

    async def _receive_all(self, on_frame: Callable[[ClientFrame], None]) -> None:
        while True:
            message = await self.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                on_frame(parse_client_frame(message.get("text") or ""))
            except BadFrame:
                self.reader.end(BAD_PROTOCOL)


async def unknown_address(scope: Any, receive: Any, send: Any) -> None:
    """Refuse the handshake at an address that no socket of ours has: whoever gets no socket polls, or comes back."""
    if (await receive())["type"] == "websocket.connect":
        await send({"type": "websocket.close"})
