"""A proxy in front of Redis that loses, doubles and swaps doorbells, and lets everything else through as it is.

It knows as much of RESP as it needs to find where a reply ends; of pub/sub only what a `message` looks like.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from config.stack.ports import free_ports
from tests.chaos.listener import Listener

LINE_END = b"\r\n"
MESSAGES = (b"*3\r\n$7\r\nmessage\r\n", b">3\r\n$7\r\nmessage\r\n")  # RESP2 and RESP3
AGGREGATES = {b"*": 1, b">": 1, b"~": 1, b"%": 2}
BULKS = (b"$", b"=", b"!")
HELD_SECONDS = 0.1  # a doorbell that waits to be overtaken goes on alone after this


@dataclass(frozen=True)
class Mischief:
    """How many of a hundred doorbells are lost, doubled, and overtaken by the next one."""

    lost: int = 20
    doubled: int = 15
    swapped: int = 15


def reply_end(buffer: bytes, at: int = 0) -> int:
    """Find where the reply that begins here ends; -1 when it is not whole yet."""
    line = buffer.find(LINE_END, at)
    if line < 0:
        return -1
    kind, size, end = buffer[at : at + 1], buffer[at + 1 : line], line + 2
    if kind in BULKS:
        if int(size) >= 0:
            end += int(size) + 2
    elif kind in AGGREGATES:
        for _ in range(max(0, int(size)) * AGGREGATES[kind]):
            end = reply_end(buffer, end)
            if end < 0:
                return -1
    return end if end <= len(buffer) else -1


class Doorbells:
    """What one connection's doorbells become. `pass_on` is called with what goes on to the client."""

    def __init__(self, mischief: Mischief, chance: random.Random, done: Counter[str]) -> None:
        self._mischief, self._chance, self._done = mischief, chance, done
        self._held: bytes | None = None

    def take(self, bell: bytes) -> list[bytes]:
        """Give what is sent now in place of this doorbell."""
        held, self._held = self._held, None
        after = [held] if held is not None else []
        dice = self._chance.randrange(100)
        for name, share in (("lost", self._mischief.lost), ("doubled", self._mischief.doubled)):
            if dice < share:
                self._done[name] += 1
                return after if name == "lost" else [bell, bell, *after]
            dice -= share
        if dice < self._mischief.swapped and held is None:
            self._done["swapped"] += 1
            self._held = bell
            return []
        self._done["passed"] += 1
        return [bell, *after]

    def release(self) -> list[bytes]:
        """Give what has waited in vain to be overtaken."""
        held, self._held = self._held, None
        return [held] if held is not None else []


class RedisProxy(Listener):
    """One listening address; `done` counts what became of the doorbells."""

    def __init__(self, upstream: str, port: int, mischief: Mischief, seed: int) -> None:
        super().__init__(port)
        self.done: Counter[str] = Counter()
        self._upstream, self._mischief = urlsplit(upstream), mischief
        self._chance = random.Random(seed)

    @property
    def url(self) -> str:
        """Where the proxy is: the same database as upstream."""
        query = dict(pair.split("=") for pair in self._upstream.query.split("&") if pair)
        number = query.get("db") or ("" if self._upstream.scheme == "unix" else self._upstream.path.strip("/"))
        secret = f":{self._upstream.password}@" if self._upstream.password else ""
        return urlunsplit(("redis", f"{secret}127.0.0.1:{self.port}", f"/{number or 0}", "", ""))

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_close, to_client)
            stack.enter_context(contextlib.suppress(OSError))
            server, to_server = await self._connect()
            stack.push_async_callback(_close, to_server)
            ways = [
                asyncio.ensure_future(_copy(client, to_server)),
                asyncio.ensure_future(self._answer(server, to_client)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream.scheme == "unix":
            return await asyncio.open_unix_connection(self._upstream.path)
        return await asyncio.open_connection(self._upstream.hostname, self._upstream.port or 6379)

    async def _answer(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        bells = Doorbells(self._mischief, self._chance, self.done)
        buffer = b""
        while True:
            try:
                data = await asyncio.wait_for(server.read(1 << 16), HELD_SECONDS)
            except TimeoutError:
                to_client.writelines(bells.release())
                continue
            if not data:
                return
            buffer, at = buffer + data, 0
            while at < len(buffer) and (end := reply_end(buffer, at)) >= 0:
                reply, at = buffer[at:end], end
                to_client.writelines(bells.take(reply) if reply.startswith(MESSAGES) else [reply])
            buffer = buffer[at:]
            await to_client.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.contextmanager
def redis_proxy(upstream: str, *, mischief: Mischief | None = None, seed: int = 1) -> Iterator[RedisProxy]:
    """Run a proxy in front of the Redis of this URL for the length of a block."""
    proxy = RedisProxy(upstream, free_ports(1)[0], mischief or Mischief(), seed)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
