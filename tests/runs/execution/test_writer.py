"""The event writer: order, bounds, lost answers, stale fences."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from runs import failpoints
from runs.agents import RunContext
from runs.conf import limits
from runs.decisions import claims
from runs.execution.outlet import Outlet, OutletClosed
from runs.execution.writer import EventWriter, connect_by
from runs.frames import Draft, Origin, draft
from tests.runs.execution.conftest import Bench, Made, OpenWorker


async def nothing(ctx: RunContext) -> None: ...


async def a_claimed_run(bench: Bench) -> tuple[Made, int]:
    run = await bench.run_of(nothing)
    claimed = await bench.decide(claims.claim(run_id=run.pk, worker="w", lease_seconds=60))
    return run, claimed.fence


def an_event(run: Made, word: str) -> Draft:
    return draft(Origin(run.pk, 1, run.stream_id), "text.delta", {"delta": word}, at=datetime.now(UTC))


def an_outlet(bench: Bench, run: Made, fence: int, lost: list[int], writer: EventWriter | None = None) -> Outlet:
    return (writer or bench.worker.writer).outlet(
        run_id=run.pk, stream_id=run.stream_id, fence=fence, on_lost=lambda: lost.append(fence)
    )


async def words(bench: Bench, run: Made) -> list[str]:
    return [e["data"]["delta"] for e in await bench.events(run) if e["type"] == "text.delta"]


async def test_events_of_many_runs_are_stored_in_the_order_of_each(a_worker: OpenWorker) -> None:
    async with a_worker() as bench:
        made = [await a_claimed_run(bench) for _ in range(3)]
        outlets = [an_outlet(bench, run, fence, []) for run, fence in made]
        for number in range(900):
            outlets[number % 3].push(an_event(made[number % 3][0], str(number)))
        await asyncio.gather(*(outlet.flush() for outlet in outlets))
        for index, (run, _) in enumerate(made):
            assert await words(bench, run) == [str(n) for n in range(index, 900, 3)]


async def test_what_comes_during_a_commit_goes_with_the_next(a_worker: OpenWorker) -> None:
    passes: list[int] = []
    at_seam, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        passes.append(1)
        at_seam.set()
        await go_on.wait()

    async with a_worker() as bench:
        run, fence = await a_claimed_run(bench)
        outlet = an_outlet(bench, run, fence, [])
        with failpoints.armed("after_commit_before_bell", hold):
            outlet.push(an_event(run, "first"))
            await at_seam.wait()
            for word in "abc":
                outlet.push(an_event(run, word))
            go_on.set()
            await outlet.flush()
        assert await words(bench, run) == ["first", "a", "b", "c"]
    assert len(passes) == 2


async def test_a_stale_fence_drops_that_runs_rows_alone(a_worker: OpenWorker) -> None:
    """The claim is taken away between two appends; the other run of the same commit is stored."""
    async with a_worker() as bench:
        (run, fence), (other, other_fence) = await a_claimed_run(bench), await a_claimed_run(bench)
        lost: list[int] = []
        outlet, good = an_outlet(bench, run, fence, lost), an_outlet(bench, other, other_fence, [])
        outlet.push(an_event(run, "mine"))
        await outlet.flush()
        assert await bench.decide(claims.take_from_dead(run_id=run.pk, worker="w"))
        outlet.push(an_event(run, "too late"))
        good.push(an_event(other, "good"))
        with pytest.raises(OutletClosed):
            await outlet.flush()
        await good.flush()
        assert lost == [fence]
        assert await words(bench, run) == ["mine"]
        assert await words(bench, other) == ["good"]
        outlet.push(an_event(run, "dropped"))
        with pytest.raises(OutletClosed):
            await outlet.room()


class LosesAnswers:
    """A connection that commits, and then breaks before it answers, as often as it is told."""

    def __init__(self, real: Any, losses: list[int]) -> None:
        self._real = real
        self._losses = losses

    @property
    def closed(self) -> bool:
        return bool(self._real.closed)

    async def execute(self, sql: str, params: Any = None) -> Any:
        cursor = await self._real.execute(sql, params)
        if self._losses:
            self._losses.pop()
            await self._real.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return cursor

    async def close(self) -> None:
        await self._real.close()


async def test_a_commit_whose_answer_was_lost_is_repeated_and_stored_once(a_worker: OpenWorker, dsn: str) -> None:
    losses = [1, 1]
    real = connect_by(dsn)

    async def connect() -> Any:
        return LosesAnswers(await real(), losses)

    async with a_worker() as bench:
        run, fence = await a_claimed_run(bench)
        rung: list[bytes] = []
        writer = EventWriter(connect, lambda channel, payload: rung.append(payload))
        writer.start()
        outlet = an_outlet(bench, run, fence, [], writer)
        for word in "abc":
            outlet.push(an_event(run, word))
        await outlet.flush()
        assert await words(bench, run) == ["a", "b", "c"]
        assert [payload.split()[0] for payload in rung] == [b"4"]  # after created, claimed, started
        assert losses == []
        await writer.close()


async def test_a_producer_waits_when_too_much_is_not_stored_yet(a_worker: OpenWorker) -> None:
    async with a_worker() as bench:
        run, fence = await a_claimed_run(bench)
        outlet = an_outlet(bench, run, fence, [])
        for number in range(limits().unstored_frames - 1):
            outlet.push(an_event(run, str(number)))
        assert not outlet.is_full
        outlet.push(an_event(run, "one more"))
        assert outlet.is_full
        await outlet.room()
        assert not outlet.is_full
        outlet.push(an_event(run, "x" * limits().unstored_bytes))
        assert outlet.is_full
        await outlet.flush()
        assert not outlet.is_full


async def test_a_row_that_is_locked_for_long_does_not_hold_up_the_others(a_worker: OpenWorker, dsn: str) -> None:
    async with a_worker() as bench:
        (run, fence), (other, other_fence) = await a_claimed_run(bench), await a_claimed_run(bench)
        writer = EventWriter(connect_by(dsn), lambda channel, payload: None)
        writer.start()
        locked, good = an_outlet(bench, run, fence, [], writer), an_outlet(bench, other, other_fence, [], writer)
        async with await psycopg.AsyncConnection.connect(dsn) as rival:
            await rival.execute("select 1 from runs_run where id = %s for update", [run.pk])
            locked.push(an_event(run, "later"))
            good.push(an_event(other, "now"))
            await asyncio.wait_for(good.flush(), 60)
            assert await words(bench, run) == []
        await asyncio.wait_for(locked.flush(), 60)
        assert await words(bench, run) == ["later"]
        await writer.close()
