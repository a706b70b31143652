"""What RQ runs: advance one run. Inside a RunWorker it waits for the shared loop; elsewhere it brings its own."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from uuid import UUID

from runs.agents.registry import load_agents
from runs.execution.advance import advance
from runs.execution.installed import installed_worker
from runs.execution.names import worker_name
from runs.execution.worker_context import WorkerContext

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
        asyncio.run(_alone(run, installed_worker(worker_name(), is_alone=True)))


async def _alone(run: UUID, opening: AbstractAsyncContextManager[WorkerContext]) -> None:
    """Under RQ's stock worker, which forks a process for each job: a worker for one run."""
    load_agents()
    async with opening as worker:
        await advance(run, worker)
