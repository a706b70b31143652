"""A TCP proxy that spoils connections, one fault after the other. It knows no HTTP; it counts bytes to the client.

cut        after so many bytes both sides are reset
hold       after so many bytes nothing passes any more, and nobody is told
half_open  after so many bytes the server's side is closed; the client's stays as it is
drop       the connection is accepted and closed without a byte
drip       each byte goes alone
none       everything passes
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

Kind = Literal["none", "cut", "hold", "half_open", "drop", "drip"]
CHUNK_BYTES = 65_536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what is closed is reset


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one connection."""

    kind: Kind = "none"
    after_bytes: int = 0


@dataclass
class Proxy:
    """A running proxy. `base` is its address; connections take the `faults` one by one, and none when they are used up.

    heard: what each connection's client has sent; passed: how many bytes each got.
    """

    base: str
    faults: list[Fault] = field(default_factory=list)
    heard: list[bytearray] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self.heard)


@contextmanager
def faulty_proxy(server: str) -> Iterator[Proxy]:
    """Run a proxy in front of a server's base URL for the length of a block, in a loop of its own."""
    target = urlsplit(server)
    host, port = target.hostname or "", target.port or (443 if target.scheme == "https" else 80)
    if target.scheme != "http":
        raise ValueError("the faults are put into plain HTTP; give the address behind TLS")
    loop = asyncio.new_event_loop()
    started = threading.Event()
    proxy = Proxy("")
    running = _Running(proxy, host, port)

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(running.start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(running.stop())
        loop.close()

    thread = threading.Thread(target=run, name="faulty-proxy")
    thread.start()
    assert started.wait(60)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


class _Running:
    def __init__(self, proxy: Proxy, host: str, port: int) -> None:
        self.proxy, self.host, self.port = proxy, host, port
        self.tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.proxy.base = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        number = self.proxy.connections
        fault = self.proxy.faults.pop(0) if self.proxy.faults else Fault()
        self.proxy.heard.append(bytearray())
        self.proxy.passed.append(0)
        try:
            if fault.kind != "drop":
                await self._carry(number, fault, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            await _reset(writer)
            self.tasks.discard(task)

    async def _carry(
        self, number: int, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there_reader, there_writer = await asyncio.open_connection(self.host, self.port)
        up = asyncio.ensure_future(self._up(number, reader, there_writer))
        try:
            is_over = await self._down(number, fault, there_reader, writer)
            if fault.kind == "half_open":
                await _reset(there_writer)
            if is_over:
                writer.write_eof()  # no reset: it would take away what the client has not read yet
            if is_over or fault.kind in ("hold", "half_open"):
                await asyncio.wait([up])  # until the client has closed, or given up
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
            await _reset(there_writer)

    async def _up(self, number: int, reader: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            self.proxy.heard[number] += data
            with contextlib.suppress(OSError):
                there.write(data)

    async def _down(self, number: int, fault: Fault, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass what comes from the server until it ends, or until the fault has had its bytes."""
        is_bounded = fault.kind in ("cut", "hold", "half_open")
        while True:
            left = fault.after_bytes - self.proxy.passed[number] if is_bounded else CHUNK_BYTES
            if left <= 0:
                return False
            data = await there.read(min(left, CHUNK_BYTES))
            if not data:
                return True
            pieces = [data[i : i + 1] for i in range(len(data))] if fault.kind == "drip" else [data]
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if fault.kind == "drip":
                    await asyncio.sleep(0)
            self.proxy.passed[number] += len(data)


async def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once; what is still on its way may be lost, as with a cable that is pulled."""
    handle = writer.get_extra_info("socket")
    if handle is not None and handle.fileno() >= 0:
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
