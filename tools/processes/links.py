"""The worker's side of one running command, and who starts commands."""

import asyncio
import contextlib
import json
import socket
from typing import Any, Protocol

from tools.processes.results import CommandNotStarted, RequestLost

type Message = dict[str, Any]

_MESSAGE_BYTES = 65536


class Link(Protocol):
    """One running command.

    started: its pid, 0 if the ward died before it could tell. gone: the last message, None if it died without one.
    """

    started: asyncio.Future[int]
    gone: asyncio.Future[Message | None]
    ended: Message | None

    def send(self, message: Message) -> None:
        """Pass {"stop": grace}, {"until": moment} or {"stored": true} on. Any thread; it may be too late for it."""

    def close(self) -> None:
        """Let go. What is still running is killed."""


class Launcher(Protocol):
    """Starts commands. request: argv, env, cwd, key, grace, until?, proof_dir?, keep?; fds: stdin, stdout, stderr."""

    async def start(self) -> None:
        """Prepare, so that the first command does not wait."""

    async def launch(self, request: Message, fds: list[int]) -> Link:
        """Begin one command. The caller closes its own copies of `fds` afterwards."""

    async def close(self) -> None:
        """End everything that was started."""


class WardLink:
    """A Link over the control socket of a ward."""

    def __init__(self, control: socket.socket, *, program: str) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[int] = loop.create_future()
        self.gone: asyncio.Future[Message | None] = loop.create_future()
        self.ended: Message | None = None
        self._program = program
        self._is_taken_up = False
        self._control = control
        self._control.setblocking(False)
        self._loop = loop
        loop.add_reader(control.fileno(), self._read)

    def send(self, message: Message) -> None:
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())

    def close(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        self._finish(None)

    def _read(self) -> None:
        while True:
            try:
                text = self._control.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # it ended without having read all of ours; the kernel says so once, before what it had sent
            except OSError:
                text = b""
            if not text:
                self._loop.remove_reader(self._control.fileno())
                self._finish(None)
                return
            self._take(json.loads(text))

    def _take(self, message: Message) -> None:
        if "ward" in message:
            self._is_taken_up = True
        elif "pid" in message and not self.started.done():
            self.started.set_result(message["pid"])
        elif "error" in message and not self.started.done():
            self.started.set_exception(CommandNotStarted(self._program, message["error"], message["errno"]))
        elif "gone" in message:
            self._finish(message)
        elif "exit" in message:
            self.ended = message

    def _finish(self, message: Message | None) -> None:
        if not self.started.done() and self._is_taken_up:
            self.started.set_result(0)  # it may have begun; that no proof follows says the rest
        elif not self.started.done():
            self.started.set_exception(RequestLost(self._program))
            self.started.exception()  # seen: whoever closes an unstarted link does not await it
        if not self.gone.done():
            self.gone.set_result(message)
