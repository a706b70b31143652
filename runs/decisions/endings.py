"""How an attempt ends: finished, parked for verification, or stopped with a complete receipt.

Each end first takes `fence + 1` and empties the lease in a guarded update (RULES H1): from then on nobody else
can write. Then everything still open is closed, and the terminal event is recorded last.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.core import (
    RUN_COLUMNS,
    TOLD,
    ChildEnded,
    Decision,
    Fact,
    Query,
    Row,
    alone,
    jsonb,
    lock_run,
    ring,
    see_run,
    told_params,
    write,
)
from runs.decisions.effects import list_effects
from runs.decisions.judging import count_unknown, judge_dispatched, list_unknown
from runs.decisions.steps_closing import close_steps
from runs.decisions.turns import start_next
from runs.frames import Draft
from runs.states import TERMINAL_EVENT, Status


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt has its one terminal event; `status` is how it ended."""

    status: Status
    effects: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The guard did not hold: lost | cancel | children (some go on) | open (in flight or unknown) | ended."""

    reason: str


def _take(guard: str, params: dict[str, Any], *, also: str = "") -> Decision[Row | None]:
    rows = yield Query(
        f"""update runs_run set fence = fence + 1, lease_until = null, lease_owner = null {also}
            where id = %(run)s and {guard} returning {RUN_COLUMNS}""",
        params,
    )
    return rows[0] if rows else None


HELD_GUARD = "fence = %(fence)s and status = 'running' and open_ops = 0 and open_children = 0"
FINISH_GUARD = f"{HELD_GUARD} and unknown_ops = 0"
PARK_GUARD = f"{HELD_GUARD} and unknown_ops > 0"
CANCEL_GUARD = """status in ('cancel_requested', 'cancelling') and open_children = 0 and (
  (fence = %(fence)s and open_ops = 0)
  or lease_until is null or lease_until < clock_timestamp()
  or stop_deadline_at < clock_timestamp())"""
NOTE_SEEN = "".join(
    f", {column} = case when fence = %(fence)s and status = 'cancel_requested' then {value} else {column} end"
    for column, value in (
        ("cancel_seen_at", "clock_timestamp()"), ("cancel_seen_by", "lease_owner"), ("cancel_seen_fence", "fence"),
    )
)  # fmt: skip


ANY_OPEN = """
select exists (select 1 from runs_step where stream_id = run.stream_id and state = 'open') as has_open_steps"""


def finish_run(
    *,
    run_id: UUID,
    fence: int,
    status: Status,
    result: Any = None,
    error_code: str | None = None,
    error_message: str | None = None,
) -> Decision[Ended | NotEnded]:
    """End a running attempt as completed or failed.

    Races: a cancel that committed first wins (NotEnded("cancel")): the caller then ends the cancel.
    """
    assert status in (Status.COMPLETED, Status.FAILED)
    data = {"result": result} if status == Status.COMPLETED else {"code": error_code, "message": error_message}
    run = yield from see_run(run_id, ANY_OPEN)
    if run is not None and (ended := (yield from _end_as_seen(run, fence, status, data, FINISH_GUARD))) is not None:
        return ended
    run = yield from lock_run(run_id)
    taken = yield from _take(FINISH_GUARD, {"run": run_id, "fence": fence})
    if run is None or taken is None:
        return NotEnded(_why_not(run, fence))
    return (yield from end(run, status, data, reason="error"))


def jsonless(data: dict[str, Any]) -> dict[str, Any]:
    """Clean plain text parameters of what PostgreSQL cannot store."""
    from_json = jsonb(data)
    assert from_json is not None  # data is a dict
    cleaned: dict[str, Any] = from_json.obj
    return cleaned


def park(*, run_id: UUID, fence: int, has_result: bool = False, result: Any = None) -> Decision[Ended | NotEnded]:
    """End a running attempt whose operations include an unknown one: it is verified, then settled on record.

    Args: has_result: the agent had returned; its result makes the run `completed` once all is known.
    """
    run = yield from lock_run(run_id)
    taken = yield from _take(PARK_GUARD, {"run": run_id, "fence": fence})
    if run is None or taken is None:
        return NotEnded(_why_not(run, fence))
    if has_result:
        yield Query(
            "update runs_run set has_result = true, result = %(result)s where id = %(run)s",
            {"run": run_id, "result": jsonb(result)},
        )
    unknown = yield from list_unknown(run_id)
    yield from end(run, Status.NEEDS_RECONCILIATION, unknown, reason="error", unknown=count_unknown(unknown))
    return Ended(Status.NEEDS_RECONCILIATION)


def end_cancel(*, run_id: UUID, fence: int | None = None) -> Decision[Ended | NotEnded]:
    """End a run whose stop was asked for: `cancelled` with a complete receipt, else `needs_reconciliation`.

    Args: fence: of the holder, who must have nothing in flight; None: a supervisor, who may only act when no
    lease is live or the stop deadline has passed. A holder that was quick has not noted yet that it saw the request:
    that is done here.
    """
    if fence is not None:
        run = yield from see_run(run_id, ANY_OPEN)
        if run is not None and not run["unknown_ops"]:
            data = {"reason": run["cancel_reason"]}
            ended = yield from _end_as_seen(
                run, fence, Status.CANCELLED, data, CANCEL_GUARD, also=NOTE_SEEN, before=_seen_now(run, fence)
            )
            if ended is not None:
                return ended
    run = yield from lock_run(run_id)
    params = {"run": run_id, "fence": -1 if fence is None else fence}
    taken = yield from _take(CANCEL_GUARD, params, also=NOTE_SEEN)
    if run is None or taken is None:
        return NotEnded(_why_not(run, fence, is_stopping=True))
    return (yield from finish_cancel(run, _seen_now(run, fence)))


def _seen_now(run: Row, fence: int | None) -> list[Fact]:
    is_new = run["fence"] == fence and run["status"] == Status.CANCEL_REQUESTED
    return [Fact("run.cancelling", {"fence": fence})] if is_new else []


def finish_cancel(run: Row, before: list[Fact] | None = None) -> Decision[Ended]:
    """Judge every open operation from the ledger and write the end, after the facts `before`.

    The caller holds the decision.
    """
    unknown: dict[str, list[dict[str, Any]]] = {}
    if run["open_ops"] or run["unknown_ops"]:  # else nothing of the ledger is undecided
        yield from judge_dispatched(run)
        unknown = yield from list_unknown(run["id"])
    count = count_unknown(unknown)
    status = Status.NEEDS_RECONCILIATION if count else Status.CANCELLED
    data = {"reason": run["cancel_reason"]} | (unknown if count else {})
    ended = yield from end(run, status, data, reason="stop", unknown=count, before=before)
    return ended


# Everything that hangs on the run's life, and its last events, in one statement.
END = f"""
with run as (
  update runs_run set status = %(status)s, fence = fence + %(takes)s, terminal_at = clock_timestamp(),
    lease_until = null, lease_owner = null, open_ops = 0, unknown_ops = %(unknown)s, waiting_for = null, wake_at = null,
    grace_expires_at = null, control_count = 0, cancel_effects = %(effects)s,
    has_result = has_result or %(has_result)s, result = coalesce(%(result)s, result),
    error_code = coalesce(%(code)s, error_code), error_message = coalesce(%(message)s, error_message),
    last_seq = last_seq + %(n)s, version = version + 1 {{also}}
  where id = %(run)s and {{guard}}
  returning id, tenant_id, stream_id, parent_id, last_seq - %(n)s as base, version
), attempt as (
  update runs_attempt set ended_at = clock_timestamp(), status = %(status)s
  where stream_id in (select stream_id from run)
), questions as (
  update runs_question set state = 'shut', closed_at = clock_timestamp()
  where run_id in (select id from run) and state = 'open'
), connections as (
  update runs_controlconnection set is_live = false, closed_at = clock_timestamp()
  where run_id in (select id from run) and closed_at is null
), wishes as (
  delete from runs_outboxrow where run_id in (select id from run)
), parent as (
  insert into runs_outboxrow (run_id, kind, due_at)
  select id, 'child', clock_timestamp() from run where parent_id is not null
), told as ({TOLD.format(row="run", data="e.data")}
)
select * from run"""


def end(
    run: Row,
    status: Status,
    data: dict[str, Any],
    *,
    reason: str,
    unknown: int = 0,
    before: list[Fact] | None = None,
) -> Decision[Ended]:
    """Close what is open and write status, terminal event and the attempt's end. The guard has been passed."""
    closed = yield from close_steps(run, repeatable_only=False, state="abandoned", reason=reason)
    effects = (yield from list_effects(run)) if run["cancel_id"] is not None else None
    facts = [*(before or []), *closed.facts]
    drafts, params = _last_words(run, status, data, facts, effects)
    rows = yield Query(END.format(guard="true", also=""), params | {"takes": 0, "unknown": unknown})
    yield from _ring(rows[0], drafts)
    yield from start_next(run)
    return Ended(status, effects)


def _end_as_seen(
    run: Row,
    fence: int,
    status: Status,
    data: dict[str, Any],
    guard: str,
    *,
    also: str = "",
    before: list[Fact] | None = None,
) -> Decision[Ended | None]:
    """End a run in one statement if its row is still as it was read and nothing is open; None: it must be locked.

    In a conversation another run may follow in the same transaction, so its row is locked.
    """
    if run["conversation_id"] is not None or run["has_open_steps"]:
        return None
    effects = (yield from alone(list_effects(run))) if run["cancel_id"] is not None else None
    drafts, params = _last_words(run, status, data, before or [], effects)
    params |= {"fence": fence, "version": run["version"], "takes": 1, "unknown": 0}
    statement = END.format(guard=f"version = %(version)s and open_ops = 0 and unknown_ops = 0 and {guard}", also=also)
    rows = yield Query(statement, params, is_alone=True)
    if not rows:
        return None
    yield from _ring(rows[0], drafts)
    return Ended(status, effects)


def _ring(ended: Row, drafts: list[Draft]) -> Decision[None]:
    yield from ring(ended, drafts)
    if ended["parent_id"] is not None:
        yield ChildEnded(ended["id"])


def _last_words(
    run: Row, status: Status, data: dict[str, Any], facts: list[Fact], effects: list[dict[str, Any]] | None
) -> tuple[list[Draft], dict[str, Any]]:
    """Write the last events, and give the parameters of END but those of its guard."""
    said = data if effects is None else data | {"effects": effects}
    drafts = write(run, [*facts, Fact(TERMINAL_EVENT[status], said)])
    plain = jsonless(data) if status == Status.FAILED else {}
    params = {
        "run": run["id"], "status": status.value, "effects": jsonb(effects), "has_result": status == Status.COMPLETED,
        "result": jsonb(data["result"]) if status == Status.COMPLETED else None, "code": plain.get("code"),
        "message": plain.get("message"), **told_params(drafts),
    }  # fmt: skip
    return drafts, params


def _why_not(run: Row | None, fence: int | None, *, is_stopping: bool = False) -> str:
    if run is None:
        return "lost"
    if run["terminal_at"] is not None:
        return "ended"
    if fence is not None and run["fence"] != fence:
        return "lost"
    has_only_children = run["open_ops"] == 0 and run["open_children"] > 0
    if is_stopping and has_only_children:
        return "children"
    if run["cancel_id"] is not None and run["open_ops"] == 0:
        return "cancel"
    return "children" if has_only_children else "open"
