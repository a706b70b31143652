"""Wait for a provider no longer than the scope allows, and wake at once when it is cancelled."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from tools.models.protocol import ModelError
from tools.scope import Scope


def raise_if_ended(scope: Scope) -> None:
    """Raise when the scope is cancelled (its own error) or out of time (ModelError, not retryable)."""
    scope.raise_if_cancelled()
    if scope.remaining() <= 0:
        raise ModelError("unavailable", "The deadline passed while the model was asked.", retryable=False)


async def pause(scope: Scope, seconds: float) -> None:
    """Sleep for `seconds`; ends early by raising when the scope is cancelled or out of time."""
    try:
        async with asyncio.timeout(min(seconds, scope.remaining())):
            await scope.cancel_event.wait()
    except TimeoutError:
        pass
    raise_if_ended(scope)


class ScopedWait:
    """Runs awaitables one after another under one scope; one small task watches for the cancel.

    Used as `async with ScopedWait(scope) as wait: await wait(anext, items)`. The awaited code runs in the caller's
    own task, so cancel scopes inside a library stay where they were opened.
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
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def __call__[T, **P](
        self, start: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Await start(*args). Raises what the scope demands (see raise_if_ended) instead of waiting on."""
        raise_if_ended(self._scope)
        remaining = self._scope.remaining()
        try:
            async with asyncio.timeout(None if remaining == math.inf else remaining) as self._timeout:
                return await start(*args, **kwargs)
        except TimeoutError:
            raise_if_ended(self._scope)
            raise
        finally:
            self._timeout = None
