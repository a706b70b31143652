"""Raw Redis connections for doorbells: written without waiting, dropped when the server is away.

redis-py's asyncio client costs 56 us of CPU a PUBLISH, this one 6 us. Nothing here is needed for correctness: a
doorbell that is lost costs its reader one look at the database.
"""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis
from redis.connection import SSLConnection, parse_url

logger = logging.getLogger(__name__)

type Reply = Any
type OnReply = Callable[[Reply], None]

# A server that stopped reading gets no more than this; later bells are dropped.
_MOST_UNSENT_BYTES = 4 << 20
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


class RedisLine:
    """One connection that reconnects by itself. greeting: sent after each connect (SUBSCRIBE and the like)."""

    def __init__(
        self, url: str, *, greeting: Sequence[tuple[bytes, ...]] = (), on_reply: OnReply | None = None
    ) -> None:
        self._target: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
        self._greeting = greeting
        self._on_reply = on_reply
        self._transport: asyncio.WriteTransport | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_up = asyncio.Event()

    def start(self) -> None:
        """Begin to connect, in the background."""
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name="redis line")

    async def up(self) -> None:
        """Wait until the connection stands (for tests, and for whoever wants its first bells heard)."""
        await self._is_up.wait()

    def send(self, *command: bytes) -> bool:
        """Write a command without waiting. False: the server is away or does not read, and it was dropped."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            return False
        transport.write(hiredis.pack_command(cast(Any, command)))  # its stub knows tuples of one only
        return True

    def ring(self, channel: bytes, payload: bytes) -> None:
        """Publish a doorbell, or drop it."""
        self.send(b"PUBLISH", channel, payload)

    async def close(self) -> None:
        """Let go of the connection; what was written is sent first if the server reads."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._transport is not None:
            self._transport.close()

    async def _stay_connected(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_LONGEST_PAUSE_SECONDS):
                    wire = await self._connect()
                pause = _FIRST_PAUSE_SECONDS
                self._is_up.set()
                await wire.lost
            self._is_up.clear()
            self._transport = None
            await asyncio.sleep(pause * (0.5 + random.random()))  # not all workers at once
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _connect(self) -> "_Wire":
        loop, to = asyncio.get_running_loop(), self._target
        wire = _Wire(self._take)
        if "path" in to:
            transport, _ = await loop.create_unix_connection(lambda: wire, to["path"])
        else:
            context = ssl.create_default_context() if to.get("connection_class") is SSLConnection else None
            host, port = to.get("host", "localhost"), to.get("port", 6379)
            transport, _ = await loop.create_connection(lambda: wire, host, port, ssl=context)
        self._transport = cast(asyncio.WriteTransport, transport)
        if to.get("password"):
            names = [to[key].encode() for key in ("username", "password") if to.get(key)]
            self.send(b"AUTH", *names)
        if to.get("db"):
            self.send(b"SELECT", str(to["db"]).encode())
        for command in self._greeting:
            self.send(*command)
        return wire

    def _take(self, reply: Reply) -> None:
        if isinstance(reply, hiredis.ReplyError):
            logger.warning("redis.refused", extra={"answer": str(reply)})
        elif self._on_reply is not None:
            self._on_reply(reply)


class _Wire(asyncio.Protocol):
    def __init__(self, take: OnReply) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = hiredis.Reader()
        self._take = take

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._take(reply)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


def listen(url: str, channel: bytes, on_message: Callable[[bytes], None]) -> RedisLine:
    """Return a line that hears one channel. What is rung while it is away is not heard."""

    def take(reply: Reply) -> None:
        if isinstance(reply, list) and len(reply) == 3 and reply[0] == b"message":
            on_message(reply[2])

    return RedisLine(url, greeting=[(b"SUBSCRIBE", channel)], on_reply=take)
