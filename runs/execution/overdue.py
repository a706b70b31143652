"""What falls due of the runs that a worker holds: it acts itself, so that nothing is late where no supervisor is there.

A supervisor that was killed needs seconds until it sweeps again. Both act by the same guarded decisions: who comes
second changes nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg

from runs.conf import limits
from runs.database import Database
from runs.decisions import cancels, controls
from runs.decisions.core import Decision, Row, in_haste
from runs.errors import Busy
from runs.execution.lease import LeaseKeeper
from runs.states import CancelReason

logger = logging.getLogger(__name__)
DUE = f"""
select run, connection, is_late from (
select id as run, null::uuid as connection, {cancels.DEADLINE_PASSED} as is_late,
  least(deadline_at, grace_expires_at) as due_at
from runs_run where id = any(%(runs)s) and status in ('queued', 'running', 'waiting')
  and ({cancels.DEADLINE_PASSED} or {cancels.GRACE_OVER})
union all
select run_id, id, false, presence_until from runs_controlconnection
where run_id = any(%(runs)s) and {controls.LAPSED}
) due order by due_at"""


@contextlib.asynccontextmanager
async def looking_after(database: Database, keeper: LeaseKeeper) -> AsyncIterator[None]:
    """Act on what is due of the held runs each `sweep_seconds`, for the length of a block."""
    looking = asyncio.create_task(_look_for_ever(database, keeper), name="overdue")
    try:
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


async def _look_for_ever(database: Database, keeper: LeaseKeeper) -> None:
    while True:
        await asyncio.sleep(limits().sweep_seconds)
        if runs := [held.run_id for held in keeper.held]:
            try:
                await act_on_due(database, runs)
            except psycopg.Error as error:  # the next look, or a supervisor, does it
                logger.warning("overdue.not_looked", extra={"error": repr(error)[:200]})


async def act_on_due(database: Database, runs: list[UUID]) -> None:
    """Act once: deadlines, graces that are over, control connections without a sign of life; what was due first, first.

    On all that are free first, then on the busy ones, each waited for a moment (RULES H16); what stays busy, or fails,
    is left for the next look. Raises: psycopg.OperationalError, psycopg.InterfaceError when the database is away.
    """
    due = await database.fetch(DUE, {"runs": runs})
    busy = [row for row in due if not await _act(database, row, 0.0)]
    for row in busy:
        await _act(database, row, limits().busy_seconds)


async def _act(database: Database, row: Row, seconds: float) -> bool:
    """Let the decision act on one row, and wait so long for whoever holds it. False: it is busy."""
    try:
        await database.decide(in_haste(_decision(row), seconds))
    except Busy:
        return False
    except (psycopg.OperationalError, psycopg.InterfaceError):
        raise
    except Exception:  # the edge of one row: it must not keep the worker from the others
        logger.exception("overdue.row_failed", extra={"run_id": str(row["run"])})
    return True


def _decision(row: Row) -> Decision[Any]:
    if row["connection"] is not None:
        return controls.lapse(connection_id=row["connection"])
    reason = CancelReason.DEADLINE if row["is_late"] else CancelReason.CLIENT_GONE
    return cancels.request_cancel(run_id=row["run"], reason=reason, overdue_only=True)
