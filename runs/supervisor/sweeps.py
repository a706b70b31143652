"""One sweep: find the rows that are overdue, and let a decision act on each.

A sweep reads without locks and acts through guarded decisions, so a row that was read as overdue and is not any
more is left alone, and two supervisors cannot act twice. A healthy waiting run is never touched.

What is due first comes first, and nothing waits for a row that somebody else holds (RULES H16): a sweep acts on all
that are free, and only then waits a moment for busy ones, which a run that is written to all the time needs.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import chain, zip_longest
from typing import Any

from django.db import InterfaceError, OperationalError

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions import cancels, children, claims, compensations, controls, endings, shells, viewers, waiting
from runs.decisions.core import Advance, Decision, Query, Row, in_haste
from runs.decisions.policy import BUDGET_SPENT, HAS_RIGHTS, IS_SPENT, RIGHTS_LOST
from runs.errors import Busy
from runs.states import CancelReason
from runs.supervisor.behind import IN_TURN, Behind
from tools.scope import boottime

logger = logging.getLogger(__name__)
BATCH = 100
MOST_PAGES = 5  # of one kind in one sweep, where nothing of a page could be acted on
AT_ONCE = 0.0
MOST_WAITING_SECONDS = 0.5  # for all busy rows of one sweep together


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is overdue (id, due_at and what the decision needs), and what acts on one such row: true if it did."""

    name: str
    overdue: str
    act: Callable[[Row], Decision[Any]]

    def read(self, behind: Behind) -> list[Row]:
        """Read a page of what is overdue: what was not tried yet by its time, then what is behind, in turn."""
        return fetch(
            f"select o.* from ({self.overdue}) o {IN_TURN} limit {BATCH}",
            {"behind": behind.of(self.name)},
        )


def _cancel(reason: CancelReason, *, note: str = "") -> Callable[[Row], Decision[Any]]:
    return lambda row: cancels.request_cancel(run_id=row["id"], reason=reason, note=note, overdue_only=True)


def _end_cancel(row: Row) -> Decision[bool]:
    return isinstance((yield from endings.end_cancel(run_id=row["id"])), endings.Ended)


def _ring(row: Row) -> Decision[bool]:
    rows = yield Query(
        """update runs_outboxrow set due_at = clock_timestamp() + %(again)s * interval '1 second'
           where id = %(id)s and due_at <= clock_timestamp() returning id""",
        {"id": row["id"], "again": limits().ring_again_seconds},
    )
    if rows:
        yield Advance(row["run_id"])
    return bool(rows)


SWEEPS = [
    Sweep(
        "expired_lease",
        """select id, lease_until as due_at from runs_run
           where status in ('running', 'cancel_requested', 'cancelling') and lease_until < clock_timestamp()""",
        lambda row: claims.expire_lease(run_id=row["id"]),
    ),
    Sweep(
        "deadline",
        f"""select id, deadline_at as due_at from runs_run where status in ('queued', 'running', 'waiting')
            and {cancels.DEADLINE_PASSED}""",
        _cancel(CancelReason.DEADLINE),
    ),
    Sweep(
        "budget",
        f"""select id, created_at as due_at from runs_run
            where status in ('queued', 'running', 'waiting') and budget_tokens is not null
            and {IS_SPENT}""",
        _cancel(CancelReason.POLICY, note=BUDGET_SPENT),
    ),
    Sweep(
        "rights",
        # By their begin: a child comes after its parent, and is stopped with it.
        f"""select id, created_at as due_at from runs_run
            where status in ('queued', 'running', 'waiting') and not {HAS_RIGHTS}""",
        _cancel(CancelReason.POLICY, note=RIGHTS_LOST),
    ),
    Sweep(
        "client_gone",
        f"""select id, grace_expires_at as due_at from runs_run where status in ('queued', 'running', 'waiting')
            and {cancels.GRACE_OVER}""",
        _cancel(CancelReason.CLIENT_GONE),
    ),
    Sweep(
        "presence",
        f"select id, presence_until as due_at from runs_controlconnection where {controls.LAPSED}",
        lambda row: controls.lapse(connection_id=row["id"]),
    ),
    Sweep(
        "viewer",
        viewers.LAPSED,
        lambda row: viewers.leave(viewer_id=row["id"], run_id=row["run_id"], if_lapsed=True),
    ),
    Sweep(
        "question",
        """select q.id, q.run_id, q.expires_at as due_at from runs_question q join runs_run r on r.id = q.run_id
            where q.state = 'open' and q.expires_at <= clock_timestamp() and r.status in ('running', 'waiting')
           """,
        lambda row: waiting.expire_question(run_id=row["run_id"], question_id=row["id"]),
    ),
    Sweep(
        "timer",
        """select id, wake_at as due_at from runs_run where status = 'waiting' and waiting_for = 'timer'
            and wake_at <= clock_timestamp()""",
        lambda row: waiting.fire_timer(run_id=row["id"]),
    ),
    Sweep(
        # A holder past its stop deadline, or nobody at all: the ledger judges. A terminal that nobody owns is left to
        # the next claim until then: it lives on, so only who adopts it can stop it.
        "stop_deadline",
        f"""select id, stop_deadline_at as due_at from runs_run r
            where status in ('cancel_requested', 'cancelling') and open_children = 0
            and (stop_deadline_at < clock_timestamp()
              or (lease_until is null or lease_until < clock_timestamp())
                and not exists ({shells.HAS_TERMINAL.format(run="r.id")}))""",
        _end_cancel,
    ),
    Sweep(
        "child_end",
        "select run_id as id, due_at from runs_outboxrow where kind = 'child'",
        lambda row: children.count_end(run_id=row["id"]),
    ),
    Sweep("shell_end", shells.TO_CLOSE, lambda row: shells.close_shell(run_id=row["id"])),
    Sweep(
        # Whoever sent it is gone: nobody knows what became of it.
        "compensation",
        """select id, horizon_at as due_at from runs_compensation
           where state = 'dispatched' and horizon_at < clock_timestamp()""",
        lambda row: compensations.give_up(compensation_id=row["id"]),
    ),
    Sweep(
        "outbox",
        """select id, run_id, due_at from runs_outboxrow where kind = 'advance' and due_at <= clock_timestamp()""",
        _ring,
    ),
]


class _Tried(Enum):
    ACTED, LEFT, BUSY, FAILED = range(4)


def sweep_once(behind: Behind | None = None) -> int:
    """Act on everything overdue; returns how many rows were acted on. What stays busy is left for the next sweep.

    A row that cannot be acted on is logged and left: it must not keep the supervisor from the rows behind it.
    Args: behind: what the sweeps before could not act on; what this one cannot is added.
    Raises: django.db.OperationalError, InterfaceError when the database is away.
    """
    memory = Behind() if behind is None else behind
    done, busy = 0, []
    for sweep in SWEEPS:
        acted, held = _act_on_free(sweep, memory)
        done += acted
        busy.append(held)
    return done + _wait_for(busy, memory)


def _act_on_free(sweep: Sweep, behind: Behind) -> tuple[int, list[tuple[Sweep, Row]]]:
    """Act on what nobody holds; returns how many that were, and the others."""
    done, busy, tried = 0, [], set()
    for _ in range(MOST_PAGES):
        page = sweep.read(behind)
        new = [row for row in page if row["id"] not in tried]
        for row in new:
            tried.add(row["id"])
            came_to = _try(sweep, row, AT_ONCE, behind)
            done += came_to is _Tried.ACTED
            if came_to is _Tried.BUSY:
                busy.append((sweep, row))
        if done or not new or len(page) < BATCH:
            break
    return done, busy


def _wait_for(busy: list[list[tuple[Sweep, Row]]], behind: Behind) -> int:
    """Wait for busy rows, a moment for each, one of each kind in turn, as long as the time for all of them lasts."""
    done, until = 0, boottime() + MOST_WAITING_SECONDS
    for one in chain.from_iterable(zip_longest(*busy)):
        if boottime() >= until:
            break
        if one is not None:
            sweep, row = one
            done += _try(sweep, row, limits().busy_seconds, behind) is _Tried.ACTED
    return done


def _try(sweep: Sweep, row: Row, seconds: float, behind: Behind) -> _Tried:
    """Let the decision act on one row, and remember whether it could. seconds: how long it waits if the row is busy."""
    said = {"sweep": sweep.name, "row": str(row["id"])}
    behind.put(sweep.name, row["id"])
    try:
        acted = decide(in_haste(sweep.act(row), seconds))
    except Busy:
        return _Tried.BUSY
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # the edge of one row
        logger.exception("supervisor.row_failed", extra=said)
        return _Tried.FAILED
    if not acted:
        return _Tried.LEFT
    behind.drop(sweep.name, row["id"])
    logger.info("supervisor.acted", extra=said)
    return _Tried.ACTED
