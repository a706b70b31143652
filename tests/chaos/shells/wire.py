"""A way to a server on which packets can vanish: nothing is closed, nothing arrives any more, in either direction."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from config.stack.ports import free_ports
from tests.chaos.listener import Listener

READ_BYTES = 1 << 16


class Wire(Listener):
    """A TCP way to a local port. What was open when packets began to vanish is never heard of again."""

    def __init__(self, upstream: int) -> None:
        super().__init__(free_ports(1)[0])
        self.vanished = 0  # bytes
        self._upstream = upstream
        self._loses = threading.Event()

    def lose_packets(self) -> None:
        """From now on every byte vanishes."""
        self._loses.set()

    def heal(self) -> None:
        """What is opened from now on gets through."""
        self._loses.clear()

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._upstream)
        is_lost = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(client, to_server, is_lost))
                both.create_task(self._copy(server, to_client, is_lost))
        except* OSError:
            pass
        finally:
            for writer in (to_client, to_server):
                writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: asyncio.Event) -> None:
        """Pass on until the end; once a byte has vanished, none of this connection gets through, nor its end."""
        while data := await reader.read(READ_BYTES):
            if self._loses.is_set():
                is_lost.set()
            if is_lost.is_set():
                self.vanished += len(data)
                continue
            writer.write(data)
            await writer.drain()
        if is_lost.is_set():
            await self._stop.wait()
        writer.close()


@contextlib.contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    """Run a way to a local port for the length of a block."""
    wire = Wire(port)
    wire.start()
    try:
        yield wire
    finally:
        wire.close()
