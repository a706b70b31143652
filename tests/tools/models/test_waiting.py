"""Waiting under a scope."""

import asyncio

import pytest

from tools.models.waiting import ScopedWait, pause
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime


async def test_pause_ends_in_time_by_cancel_and_by_deadline() -> None:
    await pause(Scope(), 0.01)
    scope = Scope()
    asyncio.get_running_loop().call_later(0.01, scope.cancel, CancelReason.PARENT)
    with pytest.raises(ScopeCancelled):
        await pause(scope, 60)
    with pytest.raises(ScopeCancelled) as caught:
        await pause(Scope(deadline=boottime() + 0.02), 60)
    assert caught.value.reason is CancelReason.DEADLINE


async def test_cancel_between_two_waits_is_seen_by_the_next_one() -> None:
    scope = Scope()
    async with ScopedWait(scope) as wait:
        assert await wait(asyncio.sleep, 0, "x") == "x"
        scope.cancel(CancelReason.USER)
        await asyncio.sleep(0)
        with pytest.raises(ScopeCancelled):
            await wait(asyncio.sleep, 0)


async def test_first_reason_stands_when_cancel_and_deadline_meet() -> None:
    scope = Scope(deadline=boottime() + 0.02)
    async with ScopedWait(scope) as wait:
        asyncio.get_running_loop().call_later(0.01, scope.cancel, CancelReason.USER)
        with pytest.raises(ScopeCancelled) as caught:
            await wait(asyncio.sleep, 60)
    assert caught.value.reason is CancelReason.USER


async def test_time_out_of_the_awaited_code_is_its_own_error() -> None:
    async def fails() -> None:
        raise TimeoutError("mine")

    async with ScopedWait(Scope()) as wait:
        with pytest.raises(TimeoutError, match="mine"):
            await wait(fails)


async def test_cancelled_caller_stays_cancelled() -> None:
    """The worker's own cancellation must not look like the run's."""
    scope = Scope()

    async def work() -> None:
        async with ScopedWait(scope) as wait:
            await wait(asyncio.sleep, 60)

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert scope.reason is None
