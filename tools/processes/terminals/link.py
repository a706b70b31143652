"""How the rest of Outlive talks to a terminal: start one, attach to it, read and write by offset."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.processes import kernel
from tools.processes.resident import REQUEST_BYTES
from tools.processes.results import CommandNotStarted, RequestLost
from tools.processes.terminals import frames
from tools.processes.terminals.host import HOST_SOCKET, socket_of

START_SECONDS = 10.0
QUEUE_SECONDS = 0.05  # between two tries where too many are connecting at once
READ_BYTES = 256 * 1024
PERMIT_SECONDS = 2.0  # from before the question whether input may go in (RULES H5)


class NoHost(Exception):
    """Nobody starts terminals on this machine, or nobody has a terminal of this key."""


class Refused(Exception):
    """The terminal's ward does not take us: `reason` is fence, generation or role."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The terminal refuses this connection: {reason}.")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes of the program; `offset` counts from its start."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """Output from `begin` to `end` is not kept any more."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Taken:
    """Input up to this offset has gone in."""

    offset: int


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened; frames.py says what there is."""

    data: dict[str, Any]


Item = Output | Skipped | Taken | News


async def start_terminal(
    folder: str,
    argv: Sequence[str],
    *,
    key: str,
    cwd: str,
    env: Mapping[str, str],
    rows: int = 24,
    cols: int = 80,
    grace_seconds: float = 3.0,
    adopt_seconds: float = 600.0,
    proof_dir: str | None = None,
    limits: Mapping[str, int] | None = None,
    user: tuple[int, int] | None = None,
    record_path: str | None = None,
    marks: str | None = None,
) -> int:
    """Have the host of this machine start a program in a terminal of its own. Returns its pid.

    Args: adopt_seconds: how long it lives without an owner; limits, user: as child.py takes them;
    record_path: where what it prints is recorded; marks: the word of a shell that marks its commands.
    Races: of two under one key, one is refused.
    Raises: NoHost, CommandNotStarted; RequestLost when it may have started.
    """
    request = {
        "argv": list(argv), "env": dict(env), "cwd": cwd, "key": key, "rows": rows, "cols": cols,
        "grace": grace_seconds, "adopt": adopt_seconds, "proof_dir": proof_dir,
        "limits": dict(limits or {}), "user": user, "record_path": record_path,
        "marks": marks,
    }  # fmt: skip
    text = json.dumps(request).encode()
    if len(text) > REQUEST_BYTES:
        raise CommandNotStarted(argv[0], f"arguments and environment are over {REQUEST_BYTES} bytes")
    loop = asyncio.get_running_loop()
    try:
        asking = await connect(os.path.join(folder, HOST_SOCKET), socket.SOCK_SEQPACKET)
    except OSError as error:
        raise NoHost(f"No host of terminals answers in {folder}.") from error
    with asking:
        try:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_BYTES)
            await loop.sock_sendall(asking, text)
            async with asyncio.timeout(START_SECONDS):
                text = await loop.sock_recv(asking, 65536)
        except OSError:
            text = b""
    if not text:
        raise RequestLost(argv[0])
    answer: dict[str, Any] = json.loads(text)
    if "error" in answer:
        raise CommandNotStarted(argv[0], answer["error"], answer["errno"])
    return int(answer["pid"])


async def connect(path: str, kind: socket.SocketKind) -> socket.socket:
    """Connect to a local socket; waits while its queue is full, which asyncio takes for a connection that was made.

    Raises: OSError, TimeoutError among them.
    """
    async with asyncio.timeout(START_SECONDS):
        while True:
            connecting = socket.socket(socket.AF_UNIX, kind)
            connecting.setblocking(False)
            try:
                connecting.connect(path)
                return connecting
            except BlockingIOError:
                connecting.close()
            except BaseException:
                connecting.close()
                raise
            await asyncio.sleep(QUEUE_SECONDS)


class Terminal:
    """An open connection to a terminal: an asynchronous iterator over what comes from it. `welcome` came first."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = frames.Reader()
        self._ready: list[frames.Frame] = []
        self.welcome: dict[str, Any] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def attach(cls, folder: str, key: str, **hello: Any) -> AsyncIterator["Terminal"]:
        """Attach to a terminal for the length of a block.

        Args: hello: role, and from (offset), generation (pilot), fence (owner); see frames.py.
        Raises: NoHost when there is none (any more), Refused.
        """
        try:
            connected = await connect(socket_of(folder, key), socket.SOCK_STREAM)
            reader, writer = await asyncio.open_unix_connection(sock=connected)
        except OSError as error:
            raise NoHost(f"There is no terminal of {key}.") from error
        try:
            terminal = cls(reader, writer)
            terminal._write(frames.pack_json(frames.HELLO, hello))
            await terminal._greet()
            yield terminal
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def type(self, offset: int, data: bytes, *, void_at: float | None = None) -> None:
        """Send input that begins at an offset. What the terminal has taken before is not taken twice.

        Args: void_at: the CLOCK_BOOTTIME from which on it may not go in; PERMIT_SECONDS from now if nobody was asked.
        """
        until = kernel.boottime() + PERMIT_SECONDS if void_at is None else void_at
        self._write(frames.pack_input(offset, until, data))

    def resize(self, rows: int, cols: int) -> None:
        """Set the size, as the pilot or the owner."""
        self._write(frames.pack_json(frames.SIZE, {"rows": rows, "cols": cols}))

    def command(self, **command: Any) -> None:
        """Command it, as the owner: stop=grace seconds, until=CLOCK_BOOTTIME, shut_input=True, stored=True."""
        self._write(frames.pack_json(frames.COMMAND, command))

    def line(self, line_id: str, **wanted: Any) -> None:
        """Have a line typed, as an agent: until, over, and text, keys or interrupt (lines.py)."""
        self._write(frames.pack_json(frames.LINE, {"id": line_id, **wanted}))

    def close(self) -> None:
        """Let go; what has come already can still be read."""
        self._writer.close()

    async def drain(self) -> None:
        """Wait until the socket has taken what was written."""
        await self._writer.drain()

    def __aiter__(self) -> "Terminal":
        return self

    async def __anext__(self) -> Item:
        frame = await self._next()
        if frame is None:
            raise StopAsyncIteration
        kind, body = frame
        if kind == frames.OUTPUT:
            return Output(*frames.read_bytes(body))
        if kind == frames.SKIPPED:
            return Skipped(*frames.read_range(body))
        if kind == frames.TAKEN:
            return Taken(frames.read_offset(body))
        return News(frames.read_json(body))

    async def _greet(self) -> None:
        frame = await self._next()
        if frame is None:
            raise NoHost("The terminal ended while we attached.")
        self.welcome = frames.read_json(frame[1])
        if "refused" in self.welcome:
            raise Refused(self.welcome["refused"])

    async def _next(self) -> frames.Frame | None:
        while not self._ready:
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                return None
            self._ready = self._frames.feed(data)[::-1]
        return self._ready.pop()

    def _write(self, data: bytes) -> None:
        if not self._writer.is_closing():  # else it has ended: reading says so, and uvloop raises a RuntimeError here
            with contextlib.suppress(OSError):
                self._writer.write(data)
