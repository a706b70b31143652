"""A real worker in a thread of the test's process, which can be frozen for good, as a killed process is."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from runs.execution.advance import advance
from runs.execution.worker_context import WorkerContext

type OpenContext = Callable[[], AbstractAsyncContextManager[WorkerContext]]
START_SECONDS = 20.0
LEAVE_SECONDS = 2.0


class WorkerThread:
    """Carries runs in one event loop. A frozen one does nothing until it is closed; by then its fence is lost."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, name: str, open_context: OpenContext) -> None:
        self.name = name
        self.is_frozen = False
        self._open_context = open_context
        self._ready: Future[WorkerContext] = Future()
        self._closing = asyncio.Event()
        self._thawed = threading.Event()
        self._carried: dict[UUID, Future[bool]] = {}
        self._tasks: set[asyncio.Task[bool]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Open the worker. Raises what opening raised."""
        self._thread.start()
        self._ready.result(START_SECONDS)

    def carry(self, run_id: UUID) -> None:
        """Advance the run in the loop, unless that is under way. Raises what the claim before raised."""
        known = self._carried.get(run_id)
        if known is not None:
            if not known.done():
                return
            known.result()
        self._carried[run_id] = asyncio.run_coroutine_threadsafe(self._advance(run_id), self.loop)

    def freeze(self) -> None:
        """Stand still with every run of this worker. Only in the loop's own thread; returns when it is closed."""
        self.is_frozen = True
        self._thawed.wait()

    def close(self) -> None:
        """End the worker: what it still carries is cut as if its fence were lost, so nothing more is written."""
        self._thawed.set()
        self.loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(START_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self.loop = asyncio.get_running_loop()
        try:
            async with self._open_context() as context:
                self._ready.set_result(context)
                await self._closing.wait()
                await self._leave(context)
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _advance(self, run_id: UUID) -> bool:
        task = asyncio.current_task()
        assert task is not None  # this coroutine runs in one
        self._tasks.add(task)
        try:
            return await advance(run_id, self._ready.result())
        finally:
            self._tasks.discard(task)

    async def _leave(self, context: WorkerContext) -> None:
        for held in context.keeper.held:
            held.lose()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LEAVE_SECONDS)
            for task in late:
                task.cancel()
