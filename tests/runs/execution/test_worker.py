"""What RunWorker changes of RQ's worker: when it looks for `rq suspend`, and what it says of itself."""

import threading
import uuid
from typing import Any

import pytest
from rq import Queue
from rq.suspension import resume, suspend
from rq.worker import WorkerStatus

from runs.execution.worker import RunWorker
from runs.ringing import client
from tests.stack import wait_until


@pytest.fixture
def worker() -> RunWorker:
    """A worker of a queue that nobody else uses."""
    name = uuid.uuid4().hex
    return RunWorker([Queue(name, connection=client())], name=name, connection=client())


def stored_state(worker: RunWorker) -> Any:
    return client().hget(worker.key, "state")


def test_a_suspended_worker_waits_until_it_is_resumed(worker: RunWorker) -> None:
    suspend(client())
    try:
        waiting = threading.Thread(target=worker.check_for_suspension, args=(False,))
        waiting.start()
        wait_until(lambda: stored_state(worker) == WorkerStatus.SUSPENDED.encode(), what="the suspension")
        assert waiting.is_alive()
    finally:
        resume(client())
    waiting.join(60)
    assert not waiting.is_alive()


def test_it_looks_once_a_second_and_not_before_each_job(worker: RunWorker) -> None:
    worker.check_for_suspension(False)
    suspend(client())
    try:
        worker.check_for_suspension(False)  # at once again: it would wait here if it looked
    finally:
        resume(client())


def test_a_worker_that_carries_a_run_is_not_idle(worker: RunWorker) -> None:
    worker.set_state(WorkerStatus.BUSY)
    worker.executions["one"] = object()
    worker.set_state(WorkerStatus.IDLE)
    assert stored_state(worker) == WorkerStatus.BUSY.encode()
    del worker.executions["one"]
    worker.set_state(WorkerStatus.IDLE)
    assert stored_state(worker) == WorkerStatus.IDLE.encode()
