"""A real host of terminals in a folder of its own, and people at its terminals."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tools.builders import ENV, wait_until_now
from tools.processes.terminals.link import News, Output, Skipped, Taken, Terminal, start_terminal

WARDEN = Path(__file__).parents[4] / "tools/processes/warden.py"
SECONDS = 30.0
KEY = "run_1/step_1"
QUIET = {**ENV, "PS1": "$ ", "TERM": "xterm-256color", "HISTFILE": ""}


@dataclass
class Seat:
    """One connection, and all that it was told."""

    terminal: Terminal
    output: bytes = b""
    begin: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    taken: int = 0
    news: list[dict[str, Any]] = field(default_factory=list)
    typed: int = 0

    def type(self, text: str | bytes) -> None:
        """Type, after all that was typed here before."""
        data = text.encode() if isinstance(text, str) else text
        self.terminal.type(self.typed, data)
        self.typed += len(data)

    async def until(self, fact: Any) -> Any:
        """Read until something is true of this seat. Raises: AssertionError after SECONDS, or at the end."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := fact(self)):
                    self.take(await anext(self.terminal))
                return found
        except (TimeoutError, StopAsyncIteration) as error:
            raise AssertionError(f"it never came: {self.output[-300:]!r} {self.news}") from error

    async def sees(self, text: str) -> None:
        """Read until the output holds a text."""
        await self.until(lambda seat: text.encode() in seat.output)

    async def news_of(self, name: str) -> dict[str, Any]:
        """Read until the news have this name."""
        found: dict[str, Any] = await self.until(lambda seat: next((n for n in seat.news if name in n), None))
        return found

    async def to_end(self) -> None:
        """Read until the connection ends."""
        async with asyncio.timeout(SECONDS):
            async for item in self.terminal:
                self.take(item)

    def take(self, item: Any) -> None:
        match item:
            case Output(offset, data):
                if not self.output:
                    self.begin = offset
                assert offset == (self.skipped[-1].end if self._has_skipped() else self.begin + len(self.output))
                if self._has_skipped():
                    self.begin, self.output = offset, b""
                self.output += data
            case Skipped():
                self.skipped.append(item)
            case Taken(offset):
                self.taken = offset
            case News(data):
                self.news.append(data)

    def _has_skipped(self) -> bool:
        return bool(self.skipped) and self.skipped[-1].end > self.begin + len(self.output)


@dataclass
class Terminals:
    """The host, and what is started on it."""

    folder: Path
    process: subprocess.Popen[bytes]

    async def start(self, *argv: str, key: str = KEY, **more: Any) -> int:
        """Start a program; bash without a configuration if none is named."""
        command = argv or ("bash", "--norc", "--noprofile", "-i")
        options = {"cwd": str(self.folder), "env": QUIET, "proof_dir": str(self.folder), **more}
        return await start_terminal(str(self.folder), command, key=key, **options)

    @contextlib.asynccontextmanager
    async def seat(self, role: str, key: str = KEY, **hello: Any) -> AsyncIterator[Seat]:
        """Attach somebody."""
        async with Terminal.attach(str(self.folder), key, role=role, **hello) as terminal:
            yield Seat(terminal, typed=terminal.welcome["taken"])

    def wards(self) -> list[psutil.Process]:
        """Return the processes of the wards."""
        return psutil.Process(self.process.pid).children()


@pytest.fixture
def terminals() -> Iterator[Terminals]:
    """Start a host; its folder has a short name, because a path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        process = subprocess.Popen([sys.executable, "-I", "-S", str(WARDEN), "terminals", name], env={})
        wait_until_now(lambda: os.path.exists(os.path.join(name, "host.sock")))
        try:
            yield Terminals(Path(name), process)
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()
