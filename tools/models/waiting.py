"""Wait for a provider no longer than the scope allows, and wake at once when it is cancelled."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from tools.scope import CancelReason, Scope


async def pause(scope: Scope, seconds: float) -> None:
    """Sleep for `seconds`. Raises ScopeCancelled as soon as the scope ends, and not before."""
    try:
        async with asyncio.timeout(min(seconds, scope.remaining())):
            await scope.cancel_event.wait()
    except TimeoutError:
        pass
    scope.raise_if_cancelled()


class ScopedWait:
    """Runs awaitables one after another under one scope; one small task watches for the cancel.

    Used as `async with ScopedWait(scope) as wait: await wait(anext, items)`. Unlike Scope.bound the awaited code
    runs in the caller's own task, so cancel scopes inside a library stay where they were opened, and an item costs
    no new task.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._timeout: asyncio.Timeout | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        # Not in a task group: it would have to be held open across the yields of an async generator.
        self._watcher = asyncio.create_task(self._watch(), name="model-cancel-watch")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._watcher is not None  # set by __aenter__
        self._watcher.cancel()

    async def _watch(self) -> None:
        await self._scope.cancel_event.wait()
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def __call__[T, **P](self, start: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await start(*args, **kwargs). Raises ScopeCancelled as soon as the scope ends, and what `start` raises."""
        self._scope.raise_if_cancelled()
        remaining = self._scope.remaining()
        timeout = asyncio.timeout(None if remaining == math.inf else remaining)
        try:
            async with timeout as self._timeout:
                return await start(*args, **kwargs)
        except TimeoutError:
            if timeout.expired():
                self._scope.cancel(CancelReason.DEADLINE)  # an earlier reason stands
            self._scope.raise_if_cancelled()
            raise
        finally:
            self._timeout = None
