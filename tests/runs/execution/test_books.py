"""RQ's registries say what a worker carries, and keep nothing of what is over; Redis may be away meanwhile."""

import uuid
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
import redis
from rq import Queue
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import FailedJobRegistry
from rq.worker import WorkerStatus

from runs.execution.books import Books
from runs.execution.worker import RunWorker
from runs.ringing import ADVANCE, client
from tests.stack import wait_until


@pytest.fixture
def queue() -> Iterator[Queue]:
    """A queue that nobody else uses."""
    made = Queue(uuid.uuid4().hex, connection=client())
    yield made
    FailedJobRegistry(queue=made).cleanup(timestamp=2**40)
    made.delete(delete_jobs=True)


@pytest.fixture
def worker(queue: Queue) -> RunWorker:
    return RunWorker([queue], name=uuid.uuid4().hex, connection=client())


@pytest.fixture
def books(worker: RunWorker) -> Books:
    return worker._books


def taken(queue: Queue) -> Job:
    """A job as a worker has just taken it."""
    queue.enqueue_call(ADVANCE, args=(uuid.uuid4().hex,), timeout=-1, result_ttl=0)
    found = Queue.dequeue_any([queue], None, connection=client())
    assert found is not None
    return found[0]


def in_between(queue: Queue) -> list[str]:
    return IntermediateQueue(queue.key, client()).get_job_ids()


def in_registry(queue: Queue) -> list[str]:
    return queue.started_job_registry.get_job_ids(cleanup=False)


def test_a_job_that_goes_on_is_in_the_registry_until_it_is_over(books: Books, queue: Queue, worker: RunWorker) -> None:
    job, begun = taken(queue), Future[bool]()
    assert in_between(queue) == [job.id]
    books.note(job, queue, begun)
    books.write()
    assert (in_between(queue), in_registry(queue)) == ([], [job.id])
    assert (job.get_status(), worker.get_state()) == ("started", WorkerStatus.BUSY)
    assert [execution.job_id for execution in worker.get_current_executions(refresh=True)] == [job.id]
    books.write()
    assert len(worker.executions) == 1  # entered once, however often they are written
    begun.set_result(True)
    books.write()
    assert (in_registry(queue), worker.executions, worker.get_state()) == ([], {}, WorkerStatus.IDLE)
    assert not list(client().scan_iter(f"*{job.id}*"))


def test_a_job_that_came_and_went_leaves_nothing_but_its_count(books: Books, queue: Queue, worker: RunWorker) -> None:
    job, begun = taken(queue), Future[bool]()
    begun.set_result(True)
    books.note(job, queue, begun)
    books.write()
    assert (in_between(queue), in_registry(queue)) == ([], [])
    assert not list(client().scan_iter(f"*{job.id}*"))
    assert client().hget(worker.key, "successful_job_count") == b"1"


@pytest.mark.parametrize("is_entered", [True, False], ids=["entered", "not entered"])
def test_a_run_that_could_not_be_advanced_is_a_failed_job(books: Books, queue: Queue, is_entered: bool) -> None:
    job, begun = taken(queue), Future[bool]()
    books.note(job, queue, begun)
    if is_entered:
        books.write()
    begun.set_exception(OSError("the database is away"))
    books.write()
    assert FailedJobRegistry(queue=queue).get_job_ids() == [job.id]
    assert (in_between(queue), in_registry(queue)) == ([], [])
    assert "the database is away" in Job.fetch(job.id, connection=client()).latest_result().exc_string


def test_what_redis_did_not_take_is_written_when_it_is_back(books: Books, queue: Queue, worker: RunWorker) -> None:
    over, going_on, begun = taken(queue), taken(queue), Future[bool]()
    begun.set_result(True)
    books.note(over, queue, begun)
    books.note(going_on, queue, Future[bool]())
    worker.connection = redis.Redis(unix_socket_path="/nowhere")
    with pytest.raises(redis.ConnectionError):
        books.write()
    worker.connection = client()
    books.write()
    assert (in_between(queue), in_registry(queue)) == ([], [going_on.id])


def test_a_close_waits_for_what_goes_on(books: Books, queue: Queue) -> None:
    job, begun = taken(queue), Future[bool]()
    books.start()
    books.note(job, queue, begun)
    wait_until(lambda: in_registry(queue) == [job.id], what="the entry")
    begun.set_result(True)
    books.close()
    assert (in_registry(queue), in_between(queue)) == ([], [])
