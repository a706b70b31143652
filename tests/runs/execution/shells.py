"""Shells on a real host of terminals, as tests of claims need them."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from asgiref.sync import sync_to_async

from runs.ids import text_id
from runs.shells import open_shell
from tests.runs.execution.conftest import Bench, until
from tools.processes.terminals.host import socket_of
from tools.processes.terminals.link import News, Output, Terminal

SECONDS = 30.0


@dataclass
class Opened:
    """A shell of a test, its run, and where its terminal is."""

    pk: UUID  # of the run
    stream_id: UUID
    user_id: int
    key: str
    folder: str

    @property
    def is_there(self) -> bool:
        return os.path.exists(socket_of(self.folder, self.key))

    async def is_up(self) -> None:
        async def there() -> bool:
            return self.is_there

        await until(there, seconds=SECONDS)

    async def is_gone(self) -> None:
        async def gone() -> bool:
            return not self.is_there

        await until(gone, seconds=SECONDS)

    async def home(self) -> Path:
        """Return where it began: not the workspace, where it runs as somebody who does not reach that."""

        async def begun() -> bool:
            return bool(self.pids())

        await until(begun, seconds=SECONDS)
        return Path(self.pids()[0].cwd())

    async def type(self, text: str, *, sees: str, generation: int = 1) -> str:
        """Type a line as a new pilot, and read until the output has the text. Returns the output."""
        async with Terminal.attach(self.folder, self.key, role="pilot", generation=generation) as terminal:
            terminal.type(terminal.welcome["taken"], text.encode())
            return await _read(terminal, sees)

    async def watch(self, sees: str) -> str:
        async with Terminal.attach(self.folder, self.key, role="viewer", **{"from": 0}) as terminal:
            return await _read(terminal, sees)

    def pids(self) -> list[psutil.Process]:
        """Return what runs in the terminal."""
        marked = psutil.process_iter(["environ"])
        return [one for one in marked if (one.info["environ"] or {}).get("OUTLIVE_WARD") == self.key]


async def _read(terminal: Terminal, sees: str) -> str:
    seen, news = b"", []
    async with asyncio.timeout(SECONDS):
        async for item in terminal:
            if isinstance(item, Output):
                seen += item.data
            if sees.encode() in seen:
                return seen.decode(errors="replace")
            if isinstance(item, News):
                news.append(item.data)
    raise AssertionError(f"it never came: {seen[-500:]!r} {news}")


async def a_shell(bench: Bench, folder: Path, **changes: Any) -> Opened:
    """Open a shell, whose run nobody has claimed yet."""
    shell = (await sync_to_async(open_shell)(actor=bench.person, **changes)).shell
    return Opened(shell.run_id, shell.run.stream_id, bench.person.user.pk, text_id("shell", shell.pk), str(folder))
