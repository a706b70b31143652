"""Asking a run to stop: by a person, its deadline, a policy, an operator, or because its client is gone."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.children import lock_below, tell
from runs.decisions.core import (
    Decision,
    Fact,
    Query,
    Row,
    ask_for_worker,
    iso,
    lock_run,
    record,
    tell_worker,
)
from runs.decisions.effects import list_effects
from runs.decisions.endings import Ended, finish_cancel
from runs.decisions.policy import MAY_GO_ON
from runs.ids import new_id, text_id
from runs.states import CANCELLABLE, ENDED, CancelReason, Status


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """is_first: this request was recorded now. too_late: the run had ended without being asked to stop."""

    is_first: bool
    too_late: bool
    effects: list[dict[str, Any]]


DEADLINE_PASSED = "deadline_at <= clock_timestamp()"
GRACE_OVER = "control_count = 0 and grace_expires_at <= clock_timestamp()"  # nobody is in control, and has not been
# What must also be true on the row for a cancel that no person asked for.
ONLY_IF = {
    None: "true",
    CancelReason.DEADLINE: DEADLINE_PASSED,
    CancelReason.POLICY: f"not ({MAY_GO_ON})",
    CancelReason.CLIENT_GONE: GRACE_OVER,
}

# What is still being asked is shut in the same statement: a later answer is told that it came too late.
REQUEST = """
with asked as (
update runs_run set status = 'cancel_requested', cancel_id = %(id)s, cancel_reason = %(reason)s, cancel_by_id = %(by)s,
  cancel_note = %(note)s, cancel_requested_at = clock_timestamp(), waiting_for = null, wake_at = null,
  grace_expires_at = null, stop_deadline_at = clock_timestamp() + %(within)s * interval '1 second'
where id = %(run)s and status in ('queued', 'running', 'waiting') and {only_if}
returning id, cancel_requested_at, stop_deadline_at
), shut as (
  update runs_question set state = 'shut', closed_at = clock_timestamp()
  where run_id in (select id from asked) and state = 'open'
)
select cancel_requested_at, stop_deadline_at from asked"""


def request_cancel(
    *, run_id: UUID, reason: CancelReason, by: int | None = None, note: str = "", overdue_only: bool = False
) -> Decision[CancelAnswer | None]:
    """Record that the run and everything below it must stop. From this commit on nothing new of them begins, ever.

    Where no claim is live and nothing is open, a run also ends here, leaves first: a queued run is `cancelled` with
    every worker down. Asked again, or after the end, nothing changes and the first request stands.

    Args: overdue_only: a supervisor's cancel, that holds only while the row says it is due; None when it is not.
    Races: an end that committed first wins; then too_late is true.
    """
    run = yield from lock_run(run_id)
    if run is None:
        return None
    below = (yield from lock_below(run_id)) if run["open_children"] else []
    only_if = ONLY_IF[reason] if overdue_only else ONLY_IF[None]
    if not (yield from ask(run, reason, by, note, only_if)):
        if overdue_only or run["status"] in CANCELLABLE:
            return None
        too_late = run["status"] in ENDED and run["cancel_id"] is None
        return CancelAnswer(False, too_late, (yield from list_effects(run)))
    for child in below:
        if child["status"] in CANCELLABLE:
            yield from ask(child, CancelReason.PARENT, by, note, ONLY_IF[None])
    tree = {one["id"]: one for one in (run, *below)}
    effects = None
    for one in reversed(tree.values()):  # a child comes after its parent
        ended = yield from _end_at_once(one)
        if one is run:
            effects = ended.effects if ended is not None else None
        elif ended is not None or one["terminal_at"] is not None:
            parent = tree[one["parent_id"]]
            if facts := (yield from tell(parent, one["id"])):
                yield from record(parent, facts)
    return CancelAnswer(True, False, (yield from list_effects(run)) if effects is None else effects)


def ask(run: Row, reason: CancelReason, by: int | None, note: str, only_if: str) -> Decision[bool]:
    """Record the request on one run that the caller has locked, and bring its row up to date. False: it may not.

    only_if: what must be true of the row besides; one of ONLY_IF.
    """
    cancel_id = new_id()
    rows = yield Query(
        REQUEST.format(only_if=only_if),
        {"run": run["id"], "id": cancel_id, "reason": reason.value, "by": by, "note": note,
         "within": limits().stop_deadline_seconds},
    )  # fmt: skip
    if not rows:
        return False
    run |= {"status": Status.CANCEL_REQUESTED, "cancel_id": cancel_id, "cancel_reason": reason.value, **rows[0]}
    pending = yield from list_effects(run)
    data = {
        "cancel_id": text_id("cancel", cancel_id), "reason": reason.value, "by": by, "note": note,
        "stop_deadline_at": iso(run["stop_deadline_at"]),
        "pending": [e for e in pending if e["outcome"] == "pending"],
    }  # fmt: skip
    yield from record(run, [Fact("run.cancel_requested", data)])
    return True


def _end_at_once(run: Row) -> Decision[Ended | None]:
    """End a stopping run that nobody holds and that has nothing open; else ask for whoever has to end it."""
    if run["terminal_at"] is not None:
        return None
    if run["has_live_lease"]:
        yield from tell_worker(run)
    elif run["open_ops"] or run["unknown_ops"]:
        yield from ask_for_worker(run["id"])
    elif not run["open_children"]:  # else the last child's end brings its own
        yield Query(
            "update runs_run set fence = fence + 1, lease_until = null, lease_owner = null where id = %(run)s",
            {"run": run["id"]},
        )
        return (yield from finish_cancel(run))
    return None
