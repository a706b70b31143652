"""The event loop of a worker process, in a thread of its own, and how RQ's threads hand runs to it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from runs.conf import limits
from runs.execution.advance import advance
from runs.execution.worker_context import WorkerContext

try:
    from uvloop import new_event_loop as _new_event_loop
except ImportError:  # not on every platform; only slower
    _new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]

logger = logging.getLogger(__name__)

type OpenContext = Callable[[], AbstractAsyncContextManager[WorkerContext]]


class LoopThread:
    """Carries runs in one loop until it is closed. Every method may be called from any other thread."""

    def __init__(self, open_context: OpenContext) -> None:
        self._open_context = open_context
        self._loop: asyncio.AbstractEventLoop = _new_event_loop()
        self._ready: Future[WorkerContext] = Future()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="runs", daemon=True)
        self._is_draining = False

    def start(self) -> None:
        """Open the worker's context and begin to carry. Raises what opening raised."""
        self._thread.start()
        self._ready.result()

    def begin(self, run_id: UUID) -> Future[bool] | None:
        """Begin to advance a run in the loop. None while draining: nothing is claimed any more."""
        if self._is_draining:
            return None  # its outbox row stays, so another worker is asked
        return asyncio.run_coroutine_threadsafe(advance(run_id, self._ready.result()), self._loop)

    def carry(self, run_id: UUID) -> None:
        """Advance a run in the loop, and wait until its claim is over."""
        begun = self.begin(run_id)
        if begun is not None:
            begun.result()

    def drain(self) -> None:
        """Let every run go at its next step boundary, or when the drain time is over. Safe in a signal handler."""
        self._is_draining = True
        self._loop.call_soon_threadsafe(self._begin_drain)

    def hurry(self) -> None:
        """Let every run go now. Safe in a signal handler."""
        self._loop.call_soon_threadsafe(self._ready.result().hands.leaving.set)

    def close(self) -> None:
        """Close the context: what is still running is killed and left to the next claim."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _begin_drain(self) -> None:
        hands = self._ready.result().hands
        hands.draining.set()
        self._loop.call_later(limits().drain_seconds, hands.leaving.set)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _live(self) -> None:
        async with self._open_context() as context:
            self._ready.set_result(context)
            await self._closing.wait()
