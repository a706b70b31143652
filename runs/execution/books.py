"""RQ's records of the jobs that a worker carries, kept for all of them together ten times a second.

RQ's own way writes ten times for each job, which cost more than the run itself. Here a job that goes on is put into
RQ's registry, one that is over is taken out of it, and all of that goes to Redis at once. A job that came and went in
between is not put in first. Until it is in the registry a job stands in RQ's intermediate queue, where RQ looks for
it a minute later should this process die. While Redis is away, what is to be written waits.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from queue import SimpleQueue

import redis
from redis.client import Pipeline
from rq import Queue
from rq.executions import Execution
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.utils import now
from rq.worker import BaseWorker, WorkerStatus

logger = logging.getLogger(__name__)

BOOKS_SECONDS = 0.1
REDIS_AWAY_SECONDS = 1.0


@dataclass(eq=False, slots=True)
class Carried:
    """A job of which the loop has the run. execution: RQ's name for it, once it is in the registry."""

    job: Job
    queue: Queue
    begun: Future[bool]
    began_at: datetime = field(default_factory=now)
    execution: Execution | None = None

    @property
    def has_failed(self) -> bool:
        """Say whether the run could not be advanced, of one that is over."""
        return self.begun.cancelled() or self.begun.exception() is not None


class Books:
    """Made for one RunWorker. `note` may be called from any thread; the records are written in a thread of ours.

    Args: book_failure: lets RQ record a job whose run could not be advanced, in RQ's own way.
    """

    def __init__(self, worker: BaseWorker, book_failure: Callable[[Carried], None]) -> None:
        self._worker = worker
        self._book_failure = book_failure
        self._came: SimpleQueue[Carried] = SimpleQueue()
        self._carried: list[Carried] = []  # only the thread's own
        self._has_news = threading.Event()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="rq books", daemon=True)

    def start(self) -> None:
        """Begin to keep them."""
        self._thread.start()

    def note(self, job: Job, queue: Queue, begun: Future[bool]) -> None:
        """Take a job whose run has been begun."""
        self._came.put(Carried(job, queue, begun))
        self._has_news.set()
        begun.add_done_callback(lambda _: self._has_news.set())

    def close(self) -> None:
        """Wait until every job is over, and write the last of them."""
        self._is_closing.set()
        self._has_news.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        while not self._is_closing.is_set() or self._carried or not self._came.empty():
            self._has_news.wait()
            self._is_closing.wait(BOOKS_SECONDS)
            self._has_news.clear()
            try:
                self.write()
            except (redis.RedisError, OSError) as error:
                logger.warning("jobs.not_booked", extra={"worker": self._worker.name, "error": repr(error)[:200]})
                if not self._is_closing.wait(REDIS_AWAY_SECONDS):
                    self._has_news.set()
                elif all(carried.begun.done() for carried in self._carried):
                    return  # the rows of the runs have it all, and RQ looks for such jobs by itself

    def write(self) -> None:
        """Write what has changed. Raises: redis.RedisError, OSError; all of it is left for the next time then."""
        while not self._came.empty():
            self._carried.append(self._came.get())
        is_over = {carried: carried.begun.done() for carried in self._carried}
        over = [carried for carried in self._carried if is_over[carried]]
        going_on = [carried for carried in self._carried if not is_over[carried]]
        with self._worker.connection.pipeline() as pipeline:
            entered = [(carried, self._enter(carried, pipeline)) for carried in going_on if carried.execution is None]
            for carried in over:
                if carried.execution is not None:
                    self._worker.executions.pop(carried.execution.id, None)
                if not carried.has_failed:
                    self._strike_out(carried, pipeline)
            self._worker.set_state(WorkerStatus.BUSY if going_on else WorkerStatus.IDLE, pipeline)
            pipeline.execute()
        for carried, execution in entered:
            carried.execution = self._worker.executions[execution.id] = execution
        self._carried = going_on
        for carried in over:
            if carried.has_failed:
                self._book_failure(carried)

    def _enter(self, carried: Carried, pipeline: Pipeline) -> Execution:
        """What RQ does before it performs a job."""
        worker, job = self._worker, carried.job
        ttl = worker.get_heartbeat_ttl(job)
        execution = Execution.create(job, ttl, pipeline=pipeline, worker_name=worker.name)
        job.heartbeat(now(), ttl, pipeline=pipeline)
        job.prepare_for_execution(worker.name, pipeline=pipeline)
        pipeline.persist(job.key)
        pipeline.lrem(_intermediate(carried), 1, job.id)
        return execution

    def _strike_out(self, carried: Carried, pipeline: Pipeline) -> None:
        """What RQ does after a job of which no result is kept, and on which none depends."""
        worker, job = self._worker, carried.job
        worker.increment_successful_job_count(pipeline)
        worker.increment_total_working_time(now() - carried.began_at, pipeline)
        if carried.execution is None:
            pipeline.lrem(_intermediate(carried), 1, job.id)
        else:
            carried.execution.delete(job, pipeline)
        pipeline.delete(job.key)


def _intermediate(carried: Carried) -> str:
    return IntermediateQueue.get_intermediate_queue_key(carried.queue.key)
