"""What people, supervisors and time do in an order.

The supervisor's own code reads by the same statements and lets the same decisions act (runs/supervisor).
"""

from typing import Any

from runs.decisions import cancels, children, claims, endings, forcing, operations, retry, waiting
from runs.states import CancelReason
from runs.supervisor import sweeps, verification
from tests.explore.actors import Look, Outside, Script
from tests.explore.orders import World


# -- people ------------------------------------------------------------------------------------------------------------
def canceller(world: World, *, reason: CancelReason = CancelReason.USER, overdue: bool = False) -> Script:
    """Ask the run to stop."""
    answer = yield cancels.request_cancel(run_id=world.run_id, reason=reason, overdue_only=overdue)
    world.facts.setdefault("answers", []).append(answer)


def forcer(world: World) -> Script:
    """End the run without waiting, as an operator may."""
    answer = yield forcing.force_stop(run_id=world.run_id, by=world.user_id, note="enough")
    world.facts.setdefault("forced", []).append(answer)


def answerer(world: World, value: Any = 1) -> Script:
    """Answer the question."""
    closed = yield waiting.answer(
        run_id=world.run_id, question_id=world.question_id, value=value, by=world.user_id, by_name="x"
    )
    world.facts.setdefault("closed", []).append(closed)


def operator(world: World, *, happened: bool, override: bool) -> Script:
    """Read the operation in doubt and give a verdict."""
    rows = yield Look("select id, version from runs_operation where run_id = %(run)s", {"run": world.run_id})
    for row in rows:
        yield operations.settle(
            operation_id=row["id"], version=row["version"], happened=happened, source="verdict", detail={},
            override=override, note="seen",
        )  # fmt: skip


def retrier(world: World) -> Script:
    """Ask for a new attempt."""
    wish = retry.Wish(run_id=world.run_id, user_id=world.user_id, user_name="x")
    answer = yield retry.retry(wish)
    world.facts.setdefault("retried", []).append(answer)


# -- supervisors -------------------------------------------------------------------------------------------------------
OVERDUE = {sweep.name: sweep.overdue for sweep in sweeps.SWEEPS}


def supervisor(world: World, *names: str) -> Script:
    """Sweep: read what is overdue by the real statement, then let the real decision act on each row."""
    for name in names:
        for row in (yield Look(OVERDUE[name], {})):
            yield ACTS[name](world, row)


ACTS: dict[str, Any] = {
    "expired_lease": lambda world, row: claims.expire_lease(run_id=row["id"]),
    "deadline": lambda world, row: cancels.request_cancel(
        run_id=row["id"], reason=CancelReason.DEADLINE, overdue_only=True
    ),
    "client_gone": lambda world, row: cancels.request_cancel(
        run_id=row["id"], reason=CancelReason.CLIENT_GONE, overdue_only=True
    ),
    "question": lambda world, row: waiting.expire_question(run_id=row["run_id"], question_id=row["id"]),
    "timer": lambda world, row: waiting.fire_timer(run_id=row["id"]),
    "child_end": lambda world, row: children.count_end(run_id=row["id"]),
    "stop_deadline": lambda world, row: endings.end_cancel(run_id=row["id"]),
}


def verifier(world: World) -> Script:
    """Settle what is unknown, as runs/supervisor/verification does: by evidence, else by the target."""
    for row in (yield Look(verification.DUE, {"seconds": 60.0})):
        happened = bool(row["proof"]) or (yield Outside("look-up", lambda row=row: world.target.look_up(row["key"])))
        yield operations.settle(
            operation_id=row["id"], version=row["version"], happened=happened,
            source="receipt" if row["proof"] else "look_up", detail=row["proof"] or {"found": happened},
        )  # fmt: skip


# -- time --------------------------------------------------------------------------------------------------------------
PAST = "clock_timestamp() - interval '1 second'"
TIMES = {
    "lease": f"update runs_run set lease_until = {PAST} where id = %(run)s and lease_until is not null",
    "deadline": f"update runs_run set deadline_at = {PAST} where id = %(run)s",
    "stop_deadline": f"update runs_run set stop_deadline_at = {PAST} where id = %(run)s and cancel_id is not null",
    "grace": f"update runs_run set grace_expires_at = {PAST} where id = %(run)s and grace_expires_at is not null",
    "question": f"update runs_question set expires_at = {PAST} where run_id = %(run)s and state = 'open'",
    "presence": f"update runs_controlconnection set presence_until = {PAST} where run_id = %(run)s and is_live",
    "horizon": f"update runs_operation set horizon_at = {PAST} where run_id = %(run)s",
    "timer": f"update runs_run set wake_at = {PAST} where id = %(run)s and wake_at is not null",
}


def time_passes(world: World, *names: str) -> Script:
    """Let times pass one after another. The horizon passes only when nothing can land any more (an assumption)."""
    for name in names:
        if name == "horizon":
            if not (yield Outside("permits are void", lambda: _make_void(world))):
                return
        yield Look(TIMES[name], {"run": world.run_id})


def _make_void(world: World) -> bool:
    world.facts["is_void"] = True
    return not world.target.under_way
