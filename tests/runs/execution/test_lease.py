"""The lease keeper: renewals, lost fences, a database that is away, a loop that does not turn."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from runs.agents import RunContext
from runs.conf import limits
from runs.database import decide
from runs.decisions import claims
from runs.decisions.cancels import request_cancel
from runs.execution.held import Held
from runs.execution.lease import LeaseKeeper
from runs.frames import Origin
from runs.states import CancelReason
from tests.builders import silent
from tests.runs.execution.conftest import Bench, Made, OpenWorker, script, until
from tools.permit import Permit
from tools.scope import CancelReason as Reason
from tools.scope import Scope, boottime

LEFT = "select extract(epoch from lease_until - clock_timestamp())::float8 as s from runs_run"


class Killed:
    """A process host that notes what it is told."""

    def __init__(self) -> None:
        self.renewed: list[tuple[str, float]] = []
        self.killed: list[str] = []

    def renew(self, key_prefix: str, until_boottime: float) -> None:
        self.renewed.append((key_prefix, until_boottime))

    def kill(self, key_prefix: str) -> int:
        self.killed.append(key_prefix)
        return 0


async def nothing(ctx: RunContext) -> None: ...


async def a_held_run(bench: Bench, *, seconds: float = 3.5) -> tuple[Made, Held]:
    run = await bench.run_of(nothing)
    claimed = await bench.decide(claims.claim(run_id=run.pk, worker="w", lease_seconds=5))
    held = Held(
        origin=Origin(run.pk, 1, run.stream_id),
        fence=claimed.fence,
        scope=Scope(),
        believed_until=boottime() + seconds,
    )
    held.outlet = bench.worker.writer.outlet(
        run_id=run.pk, stream_id=run.stream_id, fence=claimed.fence, on_lost=held.lose
    )
    return run, held


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short times, so that waiting for their end is quick."""
    yield from _limited(monkeypatch, RENEW_EVERY_SECONDS="0.3", MAX_BLOCK_SECONDS="0.5", STOP_DEADLINE_SECONDS="0.6")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Renewals so far apart that none of them tells a worker anything."""
    yield from _limited(monkeypatch, LEASE_SECONDS="600", RENEW_EVERY_SECONDS="150")


def _limited(monkeypatch: pytest.MonkeyPatch, **values: str) -> Iterator[None]:
    for name, value in values.items():
        monkeypatch.setenv(f"OUTLIVE_{name}", value)
    limits.cache_clear()
    yield
    monkeypatch.undo()
    limits.cache_clear()


async def test_a_renewal_moves_the_lease_and_what_the_worker_and_its_wards_believe(
    a_worker: OpenWorker, dsn: str, quick: None
) -> None:
    async with a_worker() as bench:
        run, held = await a_held_run(bench, seconds=1.5)
        killed = Killed()
        keeper = LeaseKeeper(conninfo=dsn, worker="w", processes=killed)
        keeper.start()
        keeper.watch(held)
        before = (await bench.row(run))["lease_until"]
        first = held.believed_until

        async def renewed() -> bool:
            return held.believed_until > first + 1

        await until(renewed)
        row = await bench.row(run)
        assert row["lease_until"] > before
        left = await bench.fetch(
            "select extract(epoch from lease_until - clock_timestamp())::float8 as s from runs_run"
        )
        # H15: what we believe ends at least 1.5 s before the row's lease, less the time of these two reads.
        assert left[0]["s"] - (held.believed_until - boottime()) > limits().lease_margin_seconds - 0.2
        assert killed.renewed[0] == (held.prefix, first)
        assert killed.renewed[-1][1] == pytest.approx(held.believed_until, abs=0.01)
        await keeper.close()


async def test_a_lost_fence_kills_processes_gives_permits_back_and_ends_the_scope(
    a_worker: OpenWorker, dsn: str, quick: None
) -> None:
    async with a_worker() as bench:
        run, held = await a_held_run(bench)
        killed = Killed()
        keeper = LeaseKeeper(conninfo=dsn, worker="w", processes=killed)
        keeper.start()
        keeper.watch(held)
        permit = Permit("n", "key", held.fence, boottime() + 60)
        with held.permit_in_use(permit):
            await bench.decide(claims.take_from_dead(run_id=run.pk, worker="w"))
            assert await asyncio.wait_for(held.scope.wait_ended(), 60) is Reason.LOST
            assert permit.give_back()
            with pytest.raises(Exception, match="given_back"):
                permit.open()
        assert held.prefix in killed.killed
        assert keeper.find(run.pk) is None
        await keeper.close()


async def test_a_cancel_comes_with_the_renewal_when_its_bell_was_lost(
    a_worker: OpenWorker, dsn: str, quick: None
) -> None:
    async with a_worker() as bench:
        run, held = await a_held_run(bench)
        keeper = LeaseKeeper(conninfo=dsn, worker="w", processes=Killed())
        keeper.start()
        keeper.watch(held)
        await bench.decide(request_cancel(run_id=run.pk, reason=CancelReason.USER))
        await asyncio.wait_for(held.should_look.wait(), 60)
        assert held.cancel_seen_at is not None
        await keeper.close()


async def test_a_worker_that_cannot_reach_the_database_stops_its_runs_at_the_believed_end(
    a_worker: OpenWorker, quick: None
) -> None:
    async with a_worker() as bench:
        _, held = await a_held_run(bench, seconds=0.8)
        killed = Killed()
        keeper = LeaseKeeper(conninfo="host=/nowhere dbname=none", worker="w", processes=killed)
        keeper.start()
        keeper.watch(held)
        end = held.believed_until
        assert await asyncio.wait_for(held.scope.wait_ended(), 60) is Reason.LOST
        assert end <= boottime() < end + 1
        assert held.prefix in killed.killed
        await keeper.close()


async def test_a_blocked_loop_loses_its_leases_after_max_block(a_worker: OpenWorker, dsn: str, quick: None) -> None:
    """The loop stands still: the keeper's thread renews for max_block, and no longer (RULES H4)."""
    async with a_worker() as bench:
        _, held = await a_held_run(bench, seconds=60)
        keeper = LeaseKeeper(conninfo=dsn, worker="w", processes=Killed())
        keeper.start()
        keeper.watch(held)
        await asyncio.sleep(0.1)
        time.sleep(2.5)  # noqa: ASYNC251 - blocking the loop is what is tested
        last = held.believed_until
        sent = last - limits().lease_seconds + limits().lease_margin_seconds
        assert boottime() - sent > 1.2
        await keeper.close()


async def test_a_blocked_loop_that_ignores_a_cancel_ends_the_process(
    a_worker: OpenWorker, dsn: str, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLIVE_MAX_BLOCK_SECONDS", "60")
    limits.cache_clear()
    deaths: list[Any] = []
    async with a_worker() as bench:
        run, held = await a_held_run(bench, seconds=60)
        killed = Killed()
        keeper = LeaseKeeper(conninfo=dsn, worker="w", processes=killed, die=lambda: deaths.append(boottime()))
        keeper.start()
        keeper.watch(held)
        await bench.decide(request_cancel(run_id=run.pk, reason=CancelReason.USER))
        time.sleep(2.5)  # noqa: ASYNC251 - blocking the loop is what is tested
        assert len(deaths) == 1
        assert held.prefix in killed.killed
        await keeper.close()


async def test_a_worker_that_writes_to_a_run_of_another_lets_go_at_once(a_worker: OpenWorker, patient: None) -> None:
    """The first commit that finds another fence says so, minutes before the next renewal would; no bell was heard."""

    async def tested(ctx: RunContext) -> str:
        return (await ctx.model(script(text="word " * 100_000, rate=200))).text

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        advancing = bench.advancing(run)
        await bench.until_event(run, "text.delta")
        assert await sync_to_async(decide)(claims.take_from_dead(run_id=run.pk, worker="worker-a"), ring=silent)
        await asyncio.wait_for(advancing, 60)
        assert (await bench.types(run))[-1] == "claim.lost"
