"""Starts commands in process groups, where there are no wards (not Linux).

What this leaves open, and the README says so: a descendant that calls setsid leaves the group and is neither found nor
killed; nothing is killed when the worker itself is killed with -9; and the end of the lease is only kept by the
worker's own loop, so a frozen worker's commands go on. Proofs from here say `contained=False`.
"""

import asyncio
import contextlib
import os
import signal
import time
from typing import Any

from tools.processes.links import Message
from tools.processes.results import CommandNotStarted
from tools.scope import boottime

_POLL_SECONDS = 0.005


class GroupLink:
    """A Link to a process that leads its own group."""

    def __init__(self, process: asyncio.subprocess.Process, request: Message) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._grace: float = request["grace"]
        self._cause: str | None = None
        self._kill_at: float | None = None
        self._stopping_since: float | None = None
        self._until: float | None = request.get("until")
        self._signalled: list[int] = []
        self._wake = asyncio.Event()
        self.ended: Message | None = None
        self.started: asyncio.Future[int] = self._loop.create_future()
        self.started.set_result(process.pid)
        self.gone: asyncio.Future[Message | None] = self._loop.create_future()
        self._watcher = self._loop.create_task(self._watch())

    def send(self, message: Message) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._take, message)

    def close(self) -> None:
        if not self.gone.done():
            self._signal(signal.SIGKILL)
            self.gone.set_result(None)
        self._watcher.cancel()

    def _take(self, message: Message) -> None:
        if "until" in message:
            self._until = message["until"]
        if "stop" in message:
            self._stop(message["stop"], "stop")
        self._wake.set()

    def _stop(self, grace: float, cause: str) -> None:
        end = time.monotonic() + grace
        if self._stopping_since is None:
            self._stopping_since, self._cause = time.monotonic(), cause
            if grace > 0:
                self._signal(signal.SIGTERM)
        self._kill_at = end if self._kill_at is None else min(self._kill_at, end)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)
            self._signalled.append(int(number))

    def _group_is_empty(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return True  # macOS says so of a group that holds only zombies
        return False

    async def _watch(self) -> None:
        ending = asyncio.ensure_future(self._process.wait())
        ending.add_done_callback(lambda _: self._wake.set())
        while True:
            self._wake.clear()
            if ending.done() and self.ended is None:
                by_itself = self._stopping_since is None
                self.ended = {"exit": ending.result(), "by_itself": by_itself}
                if by_itself:
                    self._stop(self._grace, "ended")
            if self._until is not None and boottime() >= self._until:
                self._until = None
                self._stop(0, "lease")
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal(signal.SIGKILL)
            if ending.done() and self._group_is_empty():
                return self._report()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _pause(self) -> float | None:
        if self._stopping_since is not None:
            return _POLL_SECONDS
        return None if self._until is None else max(0.0, self._until - boottime())

    def _report(self) -> None:
        since = self._stopping_since or time.monotonic()
        assert self.ended is not None  # the only caller has just seen the process end
        if not self.gone.done():
            self.gone.set_result(
                {
                    "gone": True,
                    "contained": False,
                    "exit": self.ended["exit"],
                    "by_itself": self.ended["by_itself"],
                    "cause": self._cause,
                    "reaped": 1,
                    "signalled": [[self._process.pid, "group", number] for number in self._signalled[:1]],
                    "ms": round((time.monotonic() - since) * 1e3, 2),
                }
            )


def _as_user(user: tuple[int, int] | None) -> dict[str, Any]:
    return {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}


class GroupLauncher:
    """The Launcher of systems without subreapers."""

    async def start(self) -> None:
        """Nothing to prepare."""

    async def launch(self, request: Message, fds: list[int]) -> GroupLink:
        argv = request["argv"]
        until = request.get("until")
        if until is not None and boottime() >= until:
            raise CommandNotStarted(argv[0], "the lease ended before the command started")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=fds[0],
                stdout=fds[1],
                stderr=fds[2],
                cwd=request["cwd"],
                env=request["env"],
                start_new_session=True,
                **_as_user(request.get("user")),
            )
        except OSError as error:
            raise CommandNotStarted(argv[0], str(error), error.errno or 0) from None
        return GroupLink(process, request)

    async def close(self) -> None:
        """Nothing is kept."""
