"""The scope: first reason wins, deadlines are absolute, a read is dropped at once."""

import asyncio
import math

import pytest

from tests.tools.builders import wait_until
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime


async def test_first_reason_stays() -> None:
    scope = Scope()
    assert scope.cancel(CancelReason.USER)
    assert not scope.cancel(CancelReason.DEADLINE)
    assert scope.reason is CancelReason.USER
    with pytest.raises(ScopeCancelled) as caught:
        scope.raise_if_cancelled()
    assert caught.value.reason is CancelReason.USER
    assert not isinstance(caught.value, Exception)


async def test_remaining_is_never_negative_and_a_passed_deadline_is_a_reason() -> None:
    assert Scope().remaining() == math.inf
    scope = Scope(deadline=boottime() - 5)
    assert scope.remaining() == 0
    with pytest.raises(ScopeCancelled):
        scope.raise_if_cancelled()
    assert scope.reason is CancelReason.DEADLINE


async def test_earlier_deadline_of_a_part_does_not_cancel_the_whole() -> None:
    scope = Scope(deadline=boottime() + 60)
    assert await scope.wait_ended(deadline=boottime() + 0.01) is CancelReason.DEADLINE
    assert scope.reason is None


async def test_bound_drops_work_at_the_cancel_and_waits_for_its_clean_up() -> None:
    scope = Scope()
    steps: list[str] = []

    async def work() -> None:
        try:
            steps.append("begun")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned")

    bounded = asyncio.ensure_future(scope.bound(work()))
    await wait_until(lambda: steps)
    scope.cancel(CancelReason.OPERATOR)
    with pytest.raises(ScopeCancelled):
        await bounded
    assert steps == ["begun", "cleaned"]


async def test_bound_passes_results_and_errors_and_begins_nothing_when_over() -> None:
    scope = Scope()

    async def answer(value: int) -> int:
        if value < 0:
            raise LookupError("negative")
        return value

    assert await scope.bound(answer(3)) == 3
    with pytest.raises(LookupError):
        await scope.bound(answer(-1))
    scope.cancel(CancelReason.PARENT)
    with pytest.raises(ScopeCancelled):
        await scope.bound(answer(3))
