"""The client's side of a shell's socket: what is sent through the transport, what it says, what is noted of it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from django.db import Error, close_old_connections

from runs.access import Actor
from runs.auditing import audit
from runs.decisions.controls import Held
from runs.shell_frames import pack
from streaming.consumers.socket import BAD_PROTOCOL, Socket
from streaming.hub import Hub
from streaming.protocol import BadFrame, Control
from streaming.reader import Reader
from streaming.shells import protocol
from streaming.wires import size_of

logger = logging.getLogger(__name__)


class Door:
    """One accepted WebSocket of a shell, and by whose right it is open."""

    def __init__(self, socket: Socket, hub: Hub, actor: Actor, key: str) -> None:
        self._socket, self._hub, self._actor, self._key = socket, hub, actor, key

    @property
    def user_id(self) -> int:
        """Whose connection it is."""
        user_id: int = self._actor.user.pk
        return user_id

    @property
    def reader(self) -> Reader:
        """The connection as the hub sees it."""
        return self._socket.reader

    async def say(self, kind: str, **fields: Any) -> None:
        """Send a JSON frame."""
        await self._send(self._socket.wire.control(Control(kind, fields)))

    async def send_bytes(self, channel: int, offset: int, data: bytes) -> None:
        """Send a binary frame."""
        await self._send(self._socket.wire.binary(pack(channel, offset, data)))

    async def _send(self, message: Any) -> None:
        reader, hub = self._socket.reader, self._hub
        reader.sending_since = hub.now()
        hub.sending.begin(reader, size_of(message))
        await self._socket.send(message)
        hub.sending.end(reader)
        reader.sending_since = None

    async def heard(self) -> AsyncIterator[protocol.Said]:
        """Give what the client says until it leaves, or says something that it may not."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._socket.is_gone = True
                return
            try:
                data = message.get("bytes")
                yield protocol.read_binary(data) if data is not None else protocol.read_text(message.get("text") or "")
            except BadFrame:
                self.refuse()

    def refuse(self) -> None:
        """Close for ever: the client does what the protocol does not allow."""
        self.reader.end(BAD_PROTOCOL)

    async def note_take_over(self, held: Held | None) -> None:
        """Put down that somebody else's control was taken."""
        if held is not None and held.user_id != self._actor.user.pk:
            taken = {"from": "agent" if held.user_id is None else held.user_id, "generation": held.generation}
            await asyncio.to_thread(self._audit, "shell.taken_over", taken)

    async def note_hand_back(self, is_given: bool) -> None:
        """Put down that an agent has its shell again, if it has."""
        if is_given:
            await asyncio.to_thread(self._audit, "shell.handed_back", {})

    def _audit(self, action: str, detail: dict[str, Any]) -> None:
        try:
            audit(self._actor, action, self._key, detail)
        except Error as error:
            logger.error("shell.hands_not_noted", extra={"action": action, "error": repr(error)})
        finally:
            close_old_connections()
