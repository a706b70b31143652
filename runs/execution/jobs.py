"""What RQ runs: advance one run. Inside a RunWorker it waits for the shared loop; elsewhere it brings its own."""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from django.conf import settings

from runs.agents.registry import load_agents
from runs.database import conninfo
from runs.execution.advance import advance
from runs.execution.names import worker_name
from runs.execution.worker_context import open_worker
from runs.tool_settings import tool_settings

type Carry = Callable[[UUID], None]

_carriers: list[Carry] = []
_begun: ContextVar[Future[bool] | None] = ContextVar("begun", default=None)


def carry_with(carry: Carry) -> None:
    """Let this process's jobs be carried by a loop that is there (RunWorker)."""
    _carriers[:] = [carry]


@contextmanager
def begun_as(begun: Future[bool] | None) -> Iterator[None]:
    """Let the job that this thread performs in the block wait for a run that was begun before RQ's books were kept."""
    token = _begun.set(begun)
    try:
        yield
    finally:
        _begun.reset(token)


def advance_run(run_id: str) -> None:
    """Advance the run with this id (32 hex digits), and return when the claim is over."""
    run, begun = UUID(hex=run_id), _begun.get()
    if begun is not None:
        begun.result()
    elif _carriers:
        _carriers[0](run)
    else:
        asyncio.run(_alone(run, conninfo()))


async def _alone(run: UUID, dsn: str) -> None:
    """Under RQ's stock worker, which forks a process for each job: a worker for one run."""
    load_agents()
    async with open_worker(
        name=worker_name(),
        dsn=dsn,
        redis_url=settings.REDIS_URL,
        env=os.environ,
        tool_settings=tool_settings(),
        workspaces=settings.WORKSPACES,
    ) as worker:
        await advance(run, worker)
