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
from runs.decisions.steps_closing import OPEN_STEPS, close_steps
from runs.frames import Draft
from runs.ids import text_id
from runs.states import TERMINAL_EVENT, OperationState, Status


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt has its one terminal event; `status` is how it ended."""

    status: Status
    effects: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The guard did not hold: lost | cancel | open (something is in flight or unknown) | ended."""

    reason: str


def _take(guard: str, params: dict[str, Any], *, also: str = "") -> Decision[Row | None]:
    rows = yield Query(
        f"""update runs_run set fence = fence + 1, lease_until = null, lease_owner = null {also}
            where id = %(run)s and {guard} returning {RUN_COLUMNS}""",
        params,
    )
    return rows[0] if rows else None


FINISH_GUARD = "fence = %(fence)s and status = 'running' and open_ops = 0 and unknown_ops = 0"
PARK_GUARD = "fence = %(fence)s and status = 'running' and open_ops = 0 and unknown_ops > 0"
CANCEL_GUARD = """status in ('cancel_requested', 'cancelling') and (
  (fence = %(fence)s and open_ops = 0)
  or lease_until is null or lease_until < clock_timestamp()
  or stop_deadline_at < clock_timestamp())"""
NOTE_SEEN = "".join(
    f", {column} = case when fence = %(fence)s and status = 'cancel_requested' then {value} else {column} end"
    for column, value in (
        ("cancel_seen_at", "clock_timestamp()"), ("cancel_seen_by", "lease_owner"), ("cancel_seen_fence", "fence"),
    )
)  # fmt: skip


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
    run = yield from see_run(run_id)
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
    unknown = yield from _unknown_operations(run_id)
    yield from end(run, Status.NEEDS_RECONCILIATION, {"operations": unknown}, reason="error", unknown=len(unknown))
    return Ended(Status.NEEDS_RECONCILIATION)


def end_cancel(*, run_id: UUID, fence: int | None = None) -> Decision[Ended | NotEnded]:
    """End a run whose stop was asked for: `cancelled` with a complete receipt, else `needs_reconciliation`.

    Args: fence: of the holder, who must have nothing in flight; None: a supervisor, who may only act when no
    lease is live or the stop deadline has passed. A holder that was quick has not noted yet that it saw the request:
    that is done here.
    """
    if fence is not None:
        run = yield from see_run(run_id)
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
        return NotEnded(_why_not(run, fence))
    return (yield from finish_cancel(run, _seen_now(run, fence)))


def _seen_now(run: Row, fence: int | None) -> list[Fact]:
    is_new = run["fence"] == fence and run["status"] == Status.CANCEL_REQUESTED
    return [Fact("run.cancelling", {"fence": fence})] if is_new else []


def finish_cancel(run: Row, before: list[Fact] | None = None) -> Decision[Ended]:
    """Judge every open operation from the ledger and write the end, after the facts `before`.

    The caller holds the decision.
    """
    unknown = []
    if run["open_ops"] or run["unknown_ops"]:  # else nothing of the ledger is undecided
        yield from judge_dispatched(run)
        unknown = yield from _unknown_operations(run["id"])
    status = Status.NEEDS_RECONCILIATION if unknown else Status.CANCELLED
    data: dict[str, Any] = {"reason": run["cancel_reason"]}
    if unknown:
        data["operations"] = unknown
    ended = yield from end(run, status, data, reason="stop", unknown=len(unknown), before=before)
    return ended


def judge_dispatched(run: Row) -> Decision[None]:
    """Decide each operation that nobody holds any more: by stored evidence of its dispatch, else `unknown`."""
    yield Query(
        """update runs_operation o set version = o.version + 1,
             state = case when e.id is null then 'unknown' else 'succeeded' end,
             receipt = case when e.id is null then o.receipt else e.detail end,
             next_look_up_at = case when e.id is null then clock_timestamp() end
           from runs_operation d left join lateral (
             select id, detail from runs_evidence
             where operation_id = d.id and fence = d.fence and happened order by at limit 1) e on true
           where o.id = d.id and o.run_id = %(run)s and o.state = 'dispatched'""",
        {"run": run["id"]},
    )


def _unknown_operations(run_id: UUID) -> Decision[list[dict[str, Any]]]:
    rows = yield Query(
        "select id, key, tool from runs_operation where run_id = %(run)s and state = %(state)s order by created_at",
        {"run": run_id, "state": OperationState.UNKNOWN.value},
    )
    return [{"operation_id": text_id("op", r["id"]), "operation_key": r["key"], "tool": r["tool"]} for r in rows]


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
  returning id, tenant_id, stream_id, last_seq - %(n)s as base, version
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
    yield from ring(rows[0], drafts)
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
    """End a run in one statement if its row is still as it was read and nothing is open; None: it must be locked."""
    if (yield Query(OPEN_STEPS, {"stream": run["stream_id"]}, is_alone=True)):
        return None
    effects = (yield from alone(list_effects(run))) if run["cancel_id"] is not None else None
    drafts, params = _last_words(run, status, data, before or [], effects)
    params |= {"fence": fence, "version": run["version"], "takes": 1, "unknown": 0}
    statement = END.format(guard=f"version = %(version)s and open_ops = 0 and unknown_ops = 0 and {guard}", also=also)
    rows = yield Query(statement, params, is_alone=True)
    if not rows:
        return None
    yield from ring(rows[0], drafts)
    return Ended(status, effects)


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


def _why_not(run: Row | None, fence: int | None) -> str:
    if run is None:
        return "lost"
    if run["terminal_at"] is not None:
        return "ended"
    if fence is not None and run["fence"] != fence:
        return "lost"
    if run["cancel_id"] is not None and run["open_ops"] == 0:
        return "cancel"
    return "open"
