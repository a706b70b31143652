"""Workers in the test's own loop, on the test database and the real Valkey, and agents made for one test."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from runs.agents import registry
from runs.agents.registry import agent, load_agents
from runs.database import conninfo
from runs.decisions.creation import NewRun, create
from runs.execution.advance import advance
from runs.execution.worker_context import WorkerContext, open_worker
from tests import builders
from tests.tools.processes.terminals.conftest import Terminals, terminals

__all__ = ["terminals"]  # a fixture

type OpenWorker = Callable[..., AbstractAsyncContextManager["Bench"]]

STREAM = "select seq, type, data from runs_event where stream_id = %(stream)s order by seq"


@dataclass(frozen=True)
class Made:
    """A run that a test made."""

    pk: UUID
    stream_id: UUID
    user_id: int


@dataclass
class Bench:
    """One worker, and what a test wants to know of the database."""

    worker: WorkerContext
    person: Any
    deaths: list[bool] = field(default_factory=list)

    async def run_of(self, fn: Any, **changes: Any) -> Made:
        """Make a function the agent `tested`, and make a queued run of it. Changes: any field of NewRun."""
        registry._agents.pop("tested", None)
        agent("tested")(fn)
        fields: dict[str, Any] = {
            "tenant_id": self.person.tenant.pk, "user_id": self.person.user.pk, "agent": "tested", "title": "a run",
            "input": {}, "metadata": {}, "deadline_seconds": 600.0, "on_disconnect": "continue",
            "grace_seconds": None, "idempotency_key": None, "idempotency_digest": None,
        }  # fmt: skip
        row = await self.decide(create(NewRun(**(fields | changes))))
        return Made(row["id"], row["stream_id"], self.person.user.pk)

    async def advance(self, run: Made) -> bool:
        return await advance(run.pk, self.worker)

    def advancing(self, run: Made) -> "asyncio.Task[bool]":
        return asyncio.get_running_loop().create_task(self.advance(run))

    async def row(self, run: Made) -> dict[str, Any]:
        rows = await self.fetch("select * from runs_run where id = %(run)s", run=run.pk)
        return rows[0]

    async def fetch(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        return await self.worker.hands.database.fetch(sql, params)

    async def decide(self, decision: Any) -> Any:
        return await self.worker.hands.database.decide(decision)

    async def events(self, run: Made) -> list[dict[str, Any]]:
        rows = await self.fetch(STREAM, stream=run.stream_id)
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        return [json.loads(row["data"]) for row in rows]

    async def types(self, run: Made) -> list[str]:
        return [event["type"] for event in await self.events(run)]

    async def steps(self, run: Made) -> list[tuple[str, str, str]]:
        sql = "select path, kind, state from runs_step where run_id = %(run)s order by path"
        return [(s["path"], s["kind"], s["state"]) for s in await self.fetch(sql, run=run.pk)]

    async def operations(self, run: Made) -> list[dict[str, Any]]:
        sql = "select * from runs_operation where run_id = %(run)s order by created_at"
        return await self.fetch(sql, run=run.pk)

    async def until_event(self, run: Made, kind: str, count: int = 1) -> None:
        async def seen() -> bool:
            return (await self.types(run)).count(kind) >= count

        await until(seen)


async def until(fact: Callable[[], Awaitable[bool]], *, seconds: float = 60.0) -> None:
    """Wait until the fact holds; it is looked at again and again, because other processes make it true."""
    async with asyncio.timeout(seconds):
        while not await fact():  # noqa: ASYNC110 - what makes it true is in other processes
            await asyncio.sleep(0.01)


@pytest.fixture
def dsn(transactional_db: None) -> str:
    load_agents()
    return conninfo()


@pytest.fixture
def person(transactional_db: None) -> Any:
    return builders.an_actor("owner", builders.a_tenant("acme"), "runner")


@pytest.fixture
def a_worker(dsn: str, tmp_path: Path, person: Any) -> Iterator[OpenWorker]:
    """Open a worker; several may be open at once, each with claims of its own."""

    @contextlib.asynccontextmanager
    async def opened(name: str = "worker-a", env: dict[str, str] | None = None, **changes: Any) -> AsyncIterator[Bench]:
        deaths: list[bool] = []
        arguments: dict[str, Any] = {
            "name": name,
            "dsn": dsn,
            "redis_url": settings.REDIS_URL,
            "env": {"OUTLIVE_MODEL": "scripted", "BENCH_TOK": str(tmp_path)} | (env or {}),
            "tool_settings": {},
            "workspaces": tmp_path / "workspaces",
            "die": lambda: deaths.append(True),
        }
        async with open_worker(**(arguments | changes)) as worker:
            yield Bench(worker, person, deaths)

    yield opened
    registry._agents.pop("tested", None)


@pytest.fixture
def shelled(a_worker: OpenWorker, terminals: Terminals) -> OpenWorker:
    """Open a worker that has terminals."""

    @contextlib.asynccontextmanager
    async def opened(name: str = "worker-a", **more: object) -> AsyncIterator[Bench]:
        async with a_worker(name, **({"terminals": terminals.folder} | more)) as bench:
            yield bench

    return opened


def script(**words: Any) -> str:
    """Write a prompt for the scripted model."""
    return json.dumps({"scripted": words})


def deltas(events: list[dict[str, Any]]) -> str:
    return "".join(event["data"]["delta"] for event in events if event["type"] == "text.delta")


async def wait_for_wish(run_id: UUID, bench: Bench) -> None:
    """Wait until the row asks for a worker."""

    async def asked() -> bool:
        return bool(await bench.fetch("select 1 from runs_outboxrow where run_id = %(run)s", run=run_id))

    await until(asked)
