"""The output of a command: always drained, kept up to a limit, shown as text while it comes."""

import asyncio
import codecs
import os
from collections.abc import Awaitable, Callable

from tools.processes.readiness import wait_writable, wake

CHUNK_BYTES = 65536

type OnOutput = Callable[[str, str], Awaitable[None]]
"""Gets ("stdout" | "stderr", text). It is awaited, so a full event buffer makes the pipe be read slower."""


class Capture:
    """Reads one pipe to its end. Owns the file descriptor (non-blocking) from construction on."""

    def __init__(self, fd: int, *, stream: str, limit_bytes: int, on_output: OnOutput | None) -> None:
        self.kept = bytearray()
        self.total_bytes = 0
        self._fd = fd
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._tree_is_gone = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def truncated(self) -> bool:
        return self.total_bytes > len(self.kept)

    def end(self) -> None:
        """Say that the tree is gone: what is in the pipe now is all. (Somebody else may hold its other end.)"""
        self._tree_is_gone = True
        self._wake()

    def close(self) -> None:
        """Close the pipe; calling it again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def drain(self) -> None:
        """Read until EOF, or until nothing is left after `end`. Never splits a code point in `on_output`."""
        while True:
            try:
                chunk = os.read(self._fd, CHUNK_BYTES)
            except BlockingIOError:
                if self._tree_is_gone:
                    break
                await self._wait_readable()
                continue
            if not chunk:
                break
            self.total_bytes += len(chunk)
            self.kept += chunk[: self._limit_bytes - len(self.kept)]
            await self._show(self._decoder.decode(chunk))
            await asyncio.sleep(0)  # a flood is always readable: give the loop its turn
        await self._show(self._decoder.decode(b"", final=True))

    async def _show(self, text: str) -> None:
        if text and self._on_output is not None:
            await self._on_output(self._stream, text)

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_reader(self._fd, self._wake)
        try:
            await self._waiter
        finally:
            loop.remove_reader(self._fd)
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None:
            wake(self._waiter)


async def feed(fd: int, text: bytes) -> None:
    """Write `text` into a command's stdin and close it. A command that does not read its input is no error."""
    view = memoryview(text)
    try:
        while view:
            try:
                view = view[os.write(fd, view[:CHUNK_BYTES]) :]
            except BlockingIOError:
                await wait_writable(fd)
            except BrokenPipeError:
                return
    finally:
        os.close(fd)
