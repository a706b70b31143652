"""Ending a stop without waiting any longer, on an operator's word: what has no proof by now is unknown.

It kills nothing faster than the stop does. The holder finds another fence and ends what it runs, as at the stop
deadline; what it still learns is evidence (RULES H7), by which the supervisor settles what was unknown.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.cancels import ONLY_IF, ask
from runs.decisions.children import lock_below, tell
from runs.decisions.core import Decision, Fact, Query, Row, iso, lock_run, record, tell_worker
from runs.decisions.effects import list_effects
from runs.decisions.endings import Ended, finish_cancel
from runs.states import CANCELLABLE, CancelReason


@dataclass(frozen=True, slots=True)
class ForceAnswer:
    """has_ended_it: the run ended by this call. is_first: so was the request. too_late: it had ended without a stop."""

    has_ended_it: bool
    is_first: bool
    too_late: bool
    effects: list[dict[str, Any]]


# The stop deadline is over, and with it the claim: the end of a cancel needs no more (RULES, the guards).
FORCE = """
update runs_run set stop_deadline_at = least(stop_deadline_at, clock_timestamp()),
  fence = fence + 1, lease_until = null, lease_owner = null
where id = %(run)s and status in ('cancel_requested', 'cancelling') and open_children = 0
returning stop_deadline_at"""


def force_stop(*, run_id: UUID, by: int, note: str = "") -> Decision[ForceAnswer | None]:
    """End a run and everything below it in this transaction, leaves first: `cancelled`, else `needs_reconciliation`.

    Where no stop was asked for, it is recorded first, with the reason `operator`; else the first reason stays. What was
    dispatched and has neither a receipt nor stored evidence becomes unknown. After the end nothing changes.
    None: there is no such run.
    Races: an end that committed first wins, also the holder's own; what the holder writes later finds its claim lost.
    """
    run = yield from lock_run(run_id)
    if run is None:
        return None
    below = (yield from lock_below(run_id)) if run["open_children"] else []
    is_first = yield from ask(run, CancelReason.OPERATOR, by, note, ONLY_IF[None])
    for child in below:
        if child["status"] in CANCELLABLE:
            yield from ask(child, CancelReason.PARENT, by, note, ONLY_IF[None])
    tree = {one["id"]: one for one in (run, *below)}
    for one in reversed(below):  # a child comes after its parent
        yield from _end_now(one, by, note)
        parent = tree[one["parent_id"]]
        if facts := (yield from tell(parent, one["id"])):
            yield from record(parent, facts)
    ended = yield from _end_now(run, by, note)
    if ended is None:
        assert run["terminal_at"] is not None  # its children were told, under our locks
        return ForceAnswer(False, False, run["cancel_id"] is None, (yield from list_effects(run)))
    return ForceAnswer(True, is_first, False, ended.effects or [])


def _end_now(run: Row, by: int, note: str) -> Decision[Ended | None]:
    """End one stopping run that the caller has locked; None: it has ended."""
    rows = yield Query(FORCE, {"run": run["id"]})
    if not rows:
        return None
    yield from tell_worker(run)
    data = {"by": by, "note": note, "stop_deadline_at": iso(rows[0]["stop_deadline_at"])}
    return (yield from finish_cancel(run, [Fact("run.stop_forced", data)]))
