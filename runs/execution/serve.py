"""Put a worker process together: failpoints, agents, the loop with its context, RQ's side."""

import gc
import logging
import os
from functools import partial

import django_rq
from django.conf import settings

from runs import failpoints
from runs.agents.registry import load_agents
from runs.database import conninfo
from runs.execution.jobs import carry_with
from runs.execution.loop_thread import LoopThread
from runs.execution.names import worker_name
from runs.execution.worker import RunWorker
from runs.execution.worker_context import open_worker
from runs.tool_settings import tool_settings

logger = logging.getLogger(__name__)


def serve(*, queue_name: str, suffix: str | None) -> None:
    """Carry runs until SIGTERM, then drain. Django must be set up, and this must be the main thread."""
    failpoints.arm_from_environment(os.environ)
    load_agents()
    name = worker_name(suffix)
    loop = LoopThread(
        partial(
            open_worker,
            name=name,
            dsn=conninfo(),
            redis_url=settings.REDIS_URL,
            env=os.environ,
            tool_settings=tool_settings(),
            workspaces=settings.WORKSPACES,
        )
    )
    loop.start()
    carry_with(loop.carry)
    queue = django_rq.get_queue(queue_name)
    worker = RunWorker([queue], name=name, connection=queue.connection)
    gc.freeze()  # what was loaded until here stays: no full collection has to walk through it
    logger.info("worker.ready", extra={"worker": name})
    worker.run_until_stopped(loop)
    loop.close()
    logger.info("worker.stopped", extra={"worker": name})
