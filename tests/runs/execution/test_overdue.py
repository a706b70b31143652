"""A worker acts on what falls due of the runs that it holds, with no supervisor anywhere."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from runs.agents import RunContext
from runs.database import Database
from runs.decisions import cancels, controls
from runs.execution.lease import LeaseKeeper
from runs.execution.overdue import DUE, act_on_due, looking_after
from runs.states import CancelReason
from tests.runs.execution.conftest import Bench, Made, OpenWorker, until
from tests.runs.supervisor.test_busy_rows import LOCK, patient

__all__ = ["patient"]  # a fixture


async def waits(ctx: RunContext) -> None:
    await asyncio.Event().wait()


async def ended_by_itself(bench: Bench, change: str, **more: Any) -> dict[str, Any]:
    """Let a worker carry a run, change its row, and give the row once the run has ended."""
    run = await bench.run_of(waits, **more)
    running = bench.advancing(run)
    await bench.until_event(run, "claim.started")
    await changed(bench, run, change)
    async with asyncio.timeout(30):
        await running
    return await bench.row(run)


async def changed(bench: Bench, run: Made, change: str) -> None:
    await bench.fetch(f"update runs_run set {change} where id = %(run)s", run=run.pk)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("deadline_at = clock_timestamp() - interval '1 second'", "deadline"),
        ("grace_expires_at = clock_timestamp() - interval '1 second'", "client_gone"),
    ],
)
async def test_a_run_whose_time_is_over_is_stopped_by_its_holder(
    a_worker: OpenWorker, change: str, reason: str
) -> None:
    async with a_worker() as bench:
        row = await ended_by_itself(bench, change, on_disconnect="grace", grace_seconds=600.0)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", reason)


async def test_a_connection_without_a_sign_of_life_starts_the_grace(a_worker: OpenWorker) -> None:
    async with a_worker() as bench:
        run = await bench.run_of(waits, on_disconnect="grace", grace_seconds=0.0)
        running = bench.advancing(run)
        await bench.until_event(run, "claim.started")
        attached = await bench.decide(controls.attach(run_id=run.pk, user_id=run.user_id))
        await bench.fetch(
            "update runs_controlconnection set presence_until = clock_timestamp() where id = %(id)s",
            id=attached.connection_id,
        )
        async with asyncio.timeout(30):
            await running
        row = await bench.row(run)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "client_gone")


async def test_what_is_not_due_is_left_alone(a_worker: OpenWorker) -> None:
    """Somebody is there, and a run beside it is due."""
    async with a_worker() as bench:
        kept = await bench.run_of(waits, on_disconnect="grace", grace_seconds=600.0)
        keeping = bench.advancing(kept)
        await bench.until_event(kept, "claim.started")
        await bench.decide(controls.attach(run_id=kept.pk, user_id=kept.user_id))
        row = await ended_by_itself(bench, "deadline_at = clock_timestamp() - interval '1 second'")  # a look later
        assert row["status"] == "cancelled"
        assert (await bench.row(kept))["status"] == "running"
        await changed(bench, kept, "deadline_at = clock_timestamp()")
        await keeping


class Told:
    """A database that says once what it is told to; everything else, and every decision, is the real one's."""

    def __init__(self, database: Database, rows: list[dict[str, Any]] | Exception) -> None:
        self._database, self._rows = database, rows
        self.decide = database.decide
        self.looks = 0

    async def fetch(self, sql: str, params: Any) -> list[dict[str, Any]]:
        self.looks += 1
        if self.looks > 1:
            return await self._database.fetch(sql, params)
        if isinstance(self._rows, Exception):
            raise self._rows
        return self._rows


@pytest.mark.parametrize("is_late", [True, False], ids=["deadline", "grace"])
async def test_what_was_due_when_it_was_read_and_is_not_any_more_goes_on(a_worker: OpenWorker, is_late: bool) -> None:
    """Its deadline was moved, or somebody came, between the look and the decision."""
    async with a_worker() as bench:
        run = await bench.run_of(waits, on_disconnect="grace", grace_seconds=600.0)
        told = Told(bench.worker.hands.database, [{"run": run.pk, "connection": None, "is_late": is_late}])
        await act_on_due(cast("Database", told), [run.pk])
        assert told.looks == 1
        row = await bench.row(run)
        assert (row["status"], row["cancel_id"]) == ("queued", None)


async def test_a_run_that_is_stopping_already_is_nobodys_to_act_on(a_worker: OpenWorker) -> None:
    async with a_worker() as bench:
        run = await bench.run_of(waits)
        held = "fence = 1, lease_owner = 'another', lease_until = clock_timestamp() + interval '1 hour'"
        begun = "status = 'running', started_at = clock_timestamp()"
        await changed(bench, run, f"{held}, {begun}, deadline_at = clock_timestamp() - interval '1 second'")
        assert await bench.fetch(DUE, runs=[run.pk]) == [{"run": run.pk, "connection": None, "is_late": True}]
        await bench.decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER))
        assert (await bench.row(run))["status"] == "cancel_requested"
        assert await bench.fetch(DUE, runs=[run.pk]) == []


async def test_a_database_that_was_away_is_asked_again(a_worker: OpenWorker) -> None:
    async with a_worker() as bench:
        run = await bench.run_of(waits)
        await changed(bench, run, "deadline_at = clock_timestamp() - interval '1 second'")
        told = Told(bench.worker.hands.database, psycopg.OperationalError("it is away"))
        keeper = SimpleNamespace(held=[SimpleNamespace(run_id=run.pk)])

        async def stopped() -> bool:
            return bool((await bench.row(run))["status"] == "cancelled")

        async with looking_after(cast("Database", told), cast("LeaseKeeper", keeper)):
            await until(stopped, seconds=30)
        assert told.looks >= 2


async def test_what_is_free_is_acted_on_while_somebody_holds_what_was_due_before(
    patient: None, dsn: str, a_worker: OpenWorker
) -> None:
    """Actors: a holder of the run that was due first, who lets it go when the other one has ended; a worker's look."""
    async with a_worker() as bench:
        held, free = await bench.run_of(waits), await bench.run_of(waits)
        await changed(bench, held, "deadline_at = clock_timestamp() - interval '10 seconds'")
        await changed(bench, free, "deadline_at = clock_timestamp() - interval '1 second'")

        async def is_ended() -> bool:
            return (await bench.row(free))["status"] == "cancelled"

        async with await psycopg.AsyncConnection.connect(dsn) as holder:
            await holder.execute(LOCK, [[held.pk]])
            looking = asyncio.create_task(act_on_due(bench.worker.hands.database, [held.pk, free.pk]))
            await until(is_ended)
            await holder.rollback()
        await looking
        assert (await bench.row(held))["status"] == "cancelled"
