"""Put a worker process together: failpoints, agents, the loop with its context, RQ's side."""

import gc
import logging
import os

import django_rq

from runs import failpoints
from runs.agents.registry import load_agents
from runs.execution.installed import installed_worker
from runs.execution.jobs import carry_with
from runs.execution.loop_thread import LoopThread
from runs.execution.names import worker_name
from runs.execution.worker import RunWorker

logger = logging.getLogger(__name__)


def serve(*, queue_name: str, suffix: str | None) -> None:
    """Carry runs until SIGTERM, then drain. Django must be set up, and this must be the main thread."""
    failpoints.arm_from_environment(os.environ)
    load_agents()
    name = worker_name(suffix)
    opening = installed_worker(name, is_alone=False)
    loop = LoopThread(lambda: opening)
    loop.start()
    carry_with(loop.carry)
    queue = django_rq.get_queue(queue_name)
    worker = RunWorker([queue], name=name, connection=queue.connection)
    gc.freeze()  # what was loaded until here stays: no full collection has to walk through it
    logger.info("worker.ready", extra={"worker": name})
    worker.run_until_stopped(loop)
    loop.close()
    logger.info("worker.stopped", extra={"worker": name})
