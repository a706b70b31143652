"""Agents that have a shell, carried with their shell's run by the workers of a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from runs.decisions import claims
from runs.execution.advance import advance
from runs.ids import text_id
from runs.states import CLAIMABLE
from runs.supervisor.sweeps import sweep_once
from tests.runs.execution.conftest import Bench, Made, until
from tests.runs.execution.shells import Opened

SECONDS = 30.0
FREE = """
select id from runs_run
where (id = %(run)s or root_id = %(run)s) and lease_owner is null and status = any(%(statuses)s)"""
SHELL = """
select h.id, h.run_id, r.stream_id, h.held_by_id from runs_shell h join runs_run r on r.id = h.run_id
where r.parent_id = %(run)s order by h.created_at"""


@dataclass
class Carried:
    """A run and its shell, which some worker always has as long as the block lasts."""

    bench: Bench
    run: Made
    folder: str
    worker: Bench  # who takes what is free
    tasks: dict[UUID, "asyncio.Task[bool]"] = field(default_factory=dict)
    lost: list["asyncio.Task[bool]"] = field(default_factory=list)

    async def shell(self, number: int = 0) -> Opened:
        """Return the run's shell, once it is there."""
        found: list[dict[str, Any]] = []

        async def there() -> bool:
            found[:] = await self.bench.fetch(SHELL, run=self.run.pk)
            return len(found) > number

        await until(there, seconds=SECONDS)
        row = found[number]
        user = self.bench.person.user.pk
        return Opened(row["run_id"], row["stream_id"], user, text_id("shell", row["id"]), self.folder)

    async def row(self) -> dict[str, Any]:
        return await self.bench.row(self.run)

    async def end(self) -> dict[str, Any]:
        """Wait for the end of the run and return its row."""

        async def ended() -> bool:
            return (await self.row())["terminal_at"] is not None

        await until(ended, seconds=2 * SECONDS)
        return await self.row()

    async def typed(self, count: int = 1) -> None:
        """Wait until so many commands have begun, and the last one runs."""

        async def begun() -> bool:
            return len(await self.commands()) >= count

        await until(begun, seconds=SECONDS)

    async def commands(self) -> list[dict[str, Any]]:
        return [one for one in await self.bench.operations(self.run) if one["tool"] == "shell_run"]

    async def lose(self, other: Bench, worker: str = "worker-a") -> None:
        """Let the parent run's worker be dead; another one has it from now on."""
        self.worker = other
        self.lost.append(self.tasks.pop(self.run.pk))
        assert await self.bench.decide(claims.take_from_dead(run_id=self.run.pk, worker=worker))

    async def carry(self) -> None:
        while True:
            rows = await self.bench.fetch(FREE, run=self.run.pk, statuses=[status.value for status in CLAIMABLE])
            for row in rows:
                running = self.tasks.get(row["id"])
                if running is None or running.done():
                    self.tasks[row["id"]] = asyncio.create_task(advance(row["id"], self.worker.worker))
            await sync_to_async(sweep_once)()
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def carried(bench: Bench, agent: Any, folder: Any, **changes: Any) -> AsyncIterator[Carried]:
    """Make a run of an agent, and carry it and its children."""
    it = Carried(bench, await bench.run_of(agent, **changes), str(folder), bench)
    carrying = asyncio.create_task(it.carry())
    try:
        yield it
    finally:
        carrying.cancel()
        await asyncio.wait([carrying, *it.tasks.values(), *it.lost], timeout=SECONDS)
