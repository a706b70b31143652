"""A process for one run: what has killed two workers runs with nothing beside it, so that only it can die of it."""

import asyncio
import logging
import os
import signal
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from django.db import connection

from runs import failpoints
from runs.agents.registry import load_agents
from runs.conf import limits
from runs.execution.advance import advance
from runs.execution.installed import installed_worker
from runs.execution.names import worker_name
from runs.execution.worker_context import WorkerContext
from runs.states import DEATHS_TO_ISOLATE

logger = logging.getLogger(__name__)

WAITING = f"""
select id from runs_run where deaths = {DEATHS_TO_ISOLATE} and status = 'running'
  and (lease_until is null or lease_until < clock_timestamp()) order by id limit %s"""


def find_lonely(most: int) -> list[UUID]:
    """Name runs that must run alone and that nobody holds."""
    with connection.cursor() as cursor:
        cursor.execute(WAITING, [most])
        return [row[0] for row in cursor.fetchall()]


def carry_alone(run_id: UUID, *, suffix: str | None) -> None:
    """Advance one run until its claim is over; SIGTERM drains. Django must be set up."""
    failpoints.arm_from_environment(os.environ)
    load_agents()
    name = worker_name(suffix)
    asyncio.run(_carry(run_id, name, installed_worker(name, is_alone=True)))


async def _carry(run_id: UUID, name: str, opening: AbstractAsyncContextManager[WorkerContext]) -> None:
    async with opening as worker:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _drain, worker)
        logger.info("worker.carries_one", extra={"worker": name, "run_id": run_id.hex})
        await advance(run_id, worker)


def _drain(worker: WorkerContext) -> None:
    if worker.hands.draining.is_set():
        worker.hands.leaving.set()  # a second signal hurries
    worker.hands.draining.set()
    asyncio.get_running_loop().call_later(limits().drain_seconds, worker.hands.leaving.set)
