"""One sweep: find the rows that are overdue, and let a decision act on each.

A sweep reads without locks and acts through guarded decisions, so a row that was read as overdue and is not any
more is left alone, and two supervisors cannot act twice. A healthy waiting run is never touched.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError, connection

from runs.conf import limits
from runs.database import decide
from runs.decisions import cancels, claims, controls, endings, waiting
from runs.decisions.core import Advance, Decision, Query
from runs.errors import Busy
from runs.ringing import ring_now
from runs.states import CancelReason

logger = logging.getLogger(__name__)
BATCH = 100


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is overdue, and what to do with one such row (true when something was done)."""

    name: str
    overdue: str
    act: Callable[[dict[str, Any]], Any]


def _rows(sql: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        names = [c.name for c in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _cancel(reason: CancelReason) -> Callable[[dict[str, Any]], Any]:
    return lambda row: decide(cancels.request_cancel(run_id=row["id"], reason=reason, overdue_only=True))


def _ring(row: dict[str, Any]) -> bool:
    taken = decide(_push_due(row["id"]))
    if taken:
        ring_now([Advance(row["run_id"])])
    return taken


def _push_due(outbox_id: int) -> Decision[bool]:
    rows = yield Query(
        """update runs_outboxrow set due_at = clock_timestamp() + %(again)s * interval '1 second'
           where id = %(id)s and due_at <= clock_timestamp() returning id""",
        {"id": outbox_id, "again": limits().ring_again_seconds},
    )
    return bool(rows)


SWEEPS = [
    Sweep(
        "expired_lease",
        f"""select id, lease_owner from runs_run where status in ('running', 'cancel_requested', 'cancelling')
            and lease_until < clock_timestamp() limit {BATCH}""",
        lambda row: decide(claims.expire_lease(run_id=row["id"])),
    ),
    Sweep(
        "deadline",
        f"""select id from runs_run where status in ('queued', 'running', 'waiting')
            and deadline_at <= clock_timestamp() limit {BATCH}""",
        _cancel(CancelReason.DEADLINE),
    ),
    Sweep(
        "client_gone",
        f"""select id from runs_run where status in ('queued', 'running', 'waiting') and control_count = 0
            and grace_expires_at <= clock_timestamp() limit {BATCH}""",
        _cancel(CancelReason.CLIENT_GONE),
    ),
    Sweep(
        "presence",
        f"select id from runs_controlconnection where is_live and presence_until < clock_timestamp() limit {BATCH}",
        lambda row: decide(controls.lapse(connection_id=row["id"])),
    ),
    Sweep(
        "question",
        f"""select q.id, q.run_id from runs_question q join runs_run r on r.id = q.run_id
            where q.state = 'open' and q.expires_at <= clock_timestamp() and r.status in ('running', 'waiting')
            limit {BATCH}""",
        lambda row: decide(waiting.expire_question(run_id=row["run_id"], question_id=row["id"])),
    ),
    Sweep(
        "timer",
        f"""select id from runs_run where status = 'waiting' and waiting_for = 'timer'
            and wake_at <= clock_timestamp() limit {BATCH}""",
        lambda row: decide(waiting.fire_timer(run_id=row["id"])),
    ),
    Sweep(
        # A holder past its stop deadline, or nobody at all: the ledger judges.
        "stop_deadline",
        f"""select id from runs_run where status in ('cancel_requested', 'cancelling')
            and (stop_deadline_at < clock_timestamp()
              or lease_until is null or lease_until < clock_timestamp()) limit {BATCH}""",
        lambda row: isinstance(decide(endings.end_cancel(run_id=row["id"])), endings.Ended),
    ),
    Sweep(
        "outbox",
        f"select id, run_id from runs_outboxrow where due_at <= clock_timestamp() order by due_at limit {BATCH}",
        _ring,
    ),
]


def sweep_once() -> int:
    """Act on everything overdue; returns how many rows were acted on. A busy row is left for the next sweep.

    A row that cannot be acted on is logged and left: it must not keep the supervisor from the rows behind it.
    Raises: django.db.OperationalError, InterfaceError when the database is away.
    """
    done = 0
    for sweep in SWEEPS:
        for row in _rows(sweep.overdue):
            try:
                acted = bool(sweep.act(row))
            except Busy:
                continue
            except (OperationalError, InterfaceError):
                raise
            except Exception:  # the edge of one row
                logger.exception("supervisor.row_failed", extra={"sweep": sweep.name, "row": str(row["id"])})
                continue
            if acted:
                done += 1
                logger.info("supervisor.acted", extra={"sweep": sweep.name, "row": str(row["id"])})
    return done
