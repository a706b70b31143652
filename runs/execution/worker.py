"""RunWorker: an RQ worker that carries many runs at once in one event loop.

RQ keeps its queue, its registries and its dashboard. A slot is taken before a job is taken, so a full worker leaves
jobs to others. RQ's main thread dequeues, the loop does the work, and `Books` keep RQ's records. A job that is none of
ours is performed in RQ's own way, in a thread. When Redis is away, runs go on; RQ's work loop ends and is entered
again.
"""

import contextlib
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import FrameType
from typing import Any
from uuid import UUID

import redis
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.timeouts import BaseDeathPenalty
from rq.worker import WorkerStatus

from runs.conf import limits
from runs.execution.books import Books, Carried
from runs.execution.jobs import begun_as
from runs.execution.loop_thread import LoopThread
from runs.ringing import ADVANCE

logger = logging.getLogger(__name__)

# RQ forgets a job whose worker has not been heard for 420 s; ours last for hours.
HEARTBEAT_SECONDS = 30.0
SHORTEST_HEARTBEAT_SECONDS = 1.0
LOOP_GOES_FIRST_SECONDS = 0.002  # one interpreter lock is shared: until the claim is sent, RQ's own loop keeps still
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0


class NoPenalty(BaseDeathPenalty):
    """RQ's job timeout raises in its main thread; our deadlines live on the run's row."""

    def setup_death_penalty(self) -> None: ...

    def cancel_death_penalty(self) -> None: ...


class RunWorker(SimpleWorker):
    """Takes jobs while it has slots; `run_until_stopped` instead of RQ's `work`."""

    death_penalty_class = NoPenalty
    max_connection_wait_time = LONGEST_PAUSE_SECONDS  # RQ would wait up to a minute for a Redis that is back

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._slots = threading.Semaphore(limits().concurrency)
        self._threads = ThreadPoolExecutor(limits().concurrency, thread_name_prefix="job")
        self._books = Books(self, self._book_failure)
        self._loop: LoopThread | None = None
        self._is_draining = False
        self._may_interrupt = False
        self._over = threading.Event()
        self._next_heartbeat = 0.0
        self._next_look_at_suspension = 0.0

    def run_until_stopped(self, loop: LoopThread) -> None:
        """Work until SIGTERM or SIGINT, then let every run go. A second signal lets them go at once."""
        self._loop = loop
        threading.Thread(target=self._beat, name="rq heartbeat", daemon=True).start()
        self._books.start()
        pause = FIRST_PAUSE_SECONDS
        while not self._is_draining:
            began = time.monotonic()
            try:
                self.work(logging_level="WARNING")
            except (redis.RedisError, OSError) as error:
                logger.warning("worker.redis_away", extra={"error": repr(error)[:200]})
            if self._is_draining:
                break
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > pause * 10 else pause * 2
            time.sleep(min(pause, LONGEST_PAUSE_SECONDS))
        self._let_go()
        self._over.set()

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Take nothing new and drain. Not RQ's way: that one waits for its one job to end."""
        assert self._loop is not None  # handlers are installed by `work`
        if self._is_draining:
            self._loop.hurry()
            return
        self._is_draining = self._stop_requested = True
        logger.info("worker.drains", extra={"worker": self.name, "runs": len(self.executions)})
        self._loop.drain()
        if self._may_interrupt:
            raise StopRequested

    request_force_stop = request_stop

    def register_birth(self) -> None:
        """Say that we are here, also after Redis was away and still has our key."""
        self.connection.delete(self.key)
        super().register_birth()  # type: ignore[no-untyped-call]

    def teardown(self) -> None:
        """At each end of `work`: before a real end all runs are let go."""
        if self._is_draining:
            self._let_go()
        with contextlib.suppress(redis.RedisError, OSError):
            super().teardown()  # type: ignore[no-untyped-call]

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Take a slot, then a job. A job that a signal cuts off here stays in RQ's intermediate queue; its run's
        outbox row asks again."""
        self._may_interrupt = True
        try:
            if self._is_draining:
                raise StopRequested
            self._slots.acquire()
            try:
                result: tuple[Job, Queue] | None = super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)
            except BaseException:
                self._slots.release()
                raise
        finally:
            self._may_interrupt = False
        if result is None:
            self._slots.release()
        return result

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Begin the run, and note it in the books; the slot is free again when the claim is over."""
        try:
            begun = self._begin(job)
            if begun is None:
                self._threads.submit(self._perform, job, queue)
                return
        except BaseException:
            self._slots.release()
            raise
        begun.add_done_callback(lambda _: self._slots.release())
        self._books.note(job, queue, begun)
        wait([begun], timeout=LOOP_GOES_FIRST_SECONDS)

    def _begin(self, job: Job) -> Future[bool] | None:
        assert self._loop is not None  # RQ executes jobs inside of `run_until_stopped` only
        return self._loop.begin(UUID(hex=job.args[0])) if job.func_name == ADVANCE else None

    def _perform(self, job: Job, queue: Queue) -> None:
        """Perform a job that is no run of ours, or one that came while we drain and asks nobody any more."""
        try:
            execution = self.prepare_execution(job)
            try:
                self.perform_job(job, queue, execution)
            finally:
                self.executions.pop(execution.id, None)
                self.set_state(WorkerStatus.IDLE)
        except Exception:  # the edge of the thread: RQ could not keep its books
            logger.warning("job.not_booked", exc_info=True, extra={"worker": self.name, "job_id": job.id})
        finally:
            self._slots.release()

    def _book_failure(self, carried: Carried) -> None:
        """Let RQ perform the job of a run that could not be advanced: it finds out at once, and records that."""
        job = carried.job
        with begun_as(carried.begun):
            self.perform_job(job, carried.queue, carried.execution or self.prepare_execution(job))

    def _let_go(self) -> None:
        self._threads.shutdown(wait=True)
        self._books.close()

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Say that we are here, at most once a second: RQ does it five times a job, three round trips each."""
        now = time.monotonic()
        if pipeline is None and now < self._next_heartbeat:
            return
        self._next_heartbeat = now + SHORTEST_HEARTBEAT_SECONDS
        super().heartbeat(timeout, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        """Look whether `rq suspend` was called, at most once a second: before each job it was an eighth of our time."""
        now = time.monotonic()
        if now >= self._next_look_at_suspension:
            self._next_look_at_suspension = now + SHORTEST_HEARTBEAT_SECONDS
            super().check_for_suspension(burst)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """Say what we do, where it is news; a worker that carries runs is not idle, although RQ's loop waits."""
        if state != self.get_state() and (state != WorkerStatus.IDLE or not self.executions):
            super().set_state(state, pipeline)

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(redis.RedisError, OSError):
                self.heartbeat()
                for execution in list(self.executions.values()):
                    self.maintain_heartbeats(execution.job, execution)
