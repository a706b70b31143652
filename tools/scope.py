"""One cancellation scope per run: an absolute deadline and the first reason to stop.

Pure: asyncio only. Deadlines are CLOCK_BOOTTIME seconds, so that a machine that slept does not gain time.
Who cancels from another thread (the lease keeper) uses `loop.call_soon_threadsafe(scope.cancel, reason)`.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any

# macOS has no CLOCK_BOOTTIME; there CLOCK_MONOTONIC goes on counting in sleep, which is what we need.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return the clock that deadlines, permits and leases are compared with, in seconds."""
    return time.clock_gettime(_CLOCK)


class CancelReason(StrEnum):
    """Why a run stops. The first six are on record; LOST and DRAIN stay inside the worker."""

    USER = "user"
    DEADLINE = "deadline"
    POLICY = "policy"
    OPERATOR = "operator"
    CLIENT_GONE = "client_gone"
    PARENT = "parent"
    LOST = "lost"  # the fence is not ours any more: stop without writing
    DRAIN = "drain"  # this worker leaves; the run goes on elsewhere


class ScopeCancelled(BaseException):
    """The scope ended. A BaseException, so that a broad `except Exception` in an agent cannot swallow it."""

    def __init__(self, reason: CancelReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Scope:
    """The time and the permission that a run still has; steps, tools and children share it.

    deadline: CLOCK_BOOTTIME seconds, or None for no deadline.
    reason: None until the first `cancel`, then fixed.
    """

    def __init__(self, *, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.reason: CancelReason | None = None
        self.cancel_event = asyncio.Event()

    def remaining(self) -> float:
        """Return the seconds left, never below 0; `math.inf` where there is no deadline."""
        return math.inf if self.deadline is None else max(0.0, self.deadline - boottime())

    def cancel(self, reason: CancelReason) -> bool:
        """Record the reason and wake who waits. Returns False when an earlier reason stands."""
        if self.reason is not None:
            return False
        self.reason = reason
        self.cancel_event.set()
        return True

    def raise_if_cancelled(self) -> None:
        """Raise ScopeCancelled when a reason is set; a deadline that has passed sets it here."""
        if self.reason is None and self.remaining() <= 0:
            self.cancel(CancelReason.DEADLINE)
        if self.reason is not None:
            raise ScopeCancelled(self.reason)

    async def wait_ended(self, *, deadline: float | None = None) -> CancelReason:
        """Wait until the scope is cancelled or its deadline (or the earlier one given) passes.

        Only the scope's own deadline cancels the scope; an earlier one that is given just returns DEADLINE.
        """
        while self.reason is None:
            limits = [end for end in (self.deadline, deadline) if end is not None]
            left = min(limits) - boottime() if limits else None
            if left is not None and left <= 0:
                if self.remaining() <= 0:
                    self.cancel(CancelReason.DEADLINE)
                return CancelReason.DEADLINE
            # The wait counts CLOCK_MONOTONIC; after a suspend the loop above looks at the true clock again.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.cancel_event.wait()
        return self.reason

    async def bound[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, but drop it (cancel it and wait for its end) as soon as the scope ends.

        A result that is already there wins over a cancel that comes at the same moment.
        Raises: ScopeCancelled, and whatever `work` raises.
        """
        try:
            self.raise_if_cancelled()
        except ScopeCancelled:
            work.close()
            raise
        working = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(self.wait_ended())
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ScopeCancelled(ending.result())
        finally:
            for part in (working, ending):
                part.cancel()
            await asyncio.gather(working, ending, return_exceptions=True)
