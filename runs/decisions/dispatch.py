"""The gate: nothing that the Stop promise covers begins without the permit that `dispatch` commits.

The check of the run's row and the record of the dispatch are one transaction on that row, and so is a cancel:
the database orders the two (docs/LIFECYCLE.md, "The Stop promise").
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import RUN_COLUMNS, Decision, Fact, Query, Row, jsonb, lock_run, record
from runs.decisions.evidence import insert_evidence
from runs.decisions.fresh import begin_fresh
from runs.decisions.lineage import lock_operation, may_dispatch
from runs.decisions.policy import MAY_GO_ON, why_not
from runs.errors import RuleBroken
from runs.frames import Origin
from runs.ids import new_id, text_id
from runs.states import OperationState, Status, StepState


@dataclass(frozen=True, slots=True)
class StepCall:
    """What is about to happen, and where in the agent: the same path must always mean the same call."""

    path: str
    kind: str  # model | tool | ask | timer | text
    name: str
    arguments: dict[str, Any]
    digest: str
    effect: str | None = None


@dataclass(frozen=True, slots=True)
class OperationCall:
    """The ledger's side of a call with an effect outside."""

    key: str
    is_process: bool
    can_look_up: bool
    request_bound_seconds: float  # how long after send-by it may still land at the target


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The call may begin, once, with the nonce that the caller made. `send_by` is the row's word."""

    step_id: UUID
    operation_id: UUID | None


@dataclass(frozen=True, slots=True)
class Refused:
    """It must not begin: lost | cancel | deadline | unknown_open | not_running | rights | budget."""

    reason: str


@dataclass(frozen=True, slots=True)
class InOperation:
    """The operation was begun before; what is known of it decides what the caller does next."""

    step_id: UUID
    operation: Row = field(repr=False)


GATE = f"""
update runs_run set open_ops = open_ops + %(adds)s
where id = %(run)s and fence = %(fence)s and status = 'running'
  and (deadline_at is null or deadline_at > clock_timestamp()) and unknown_ops = 0 and {MAY_GO_ON}
returning {RUN_COLUMNS}, clock_timestamp() as now"""

BEGIN_STEP = """
insert into runs_step as s (id, run_id, stream_id, path, kind, name, effect, arguments, digest, state, fence,
                            message_id, started_at)
values (%(id)s, %(run)s, %(stream)s, %(path)s, %(kind)s, %(name)s, %(effect)s, %(arguments)s, %(digest)s, 'open',
        %(fence)s, %(message)s, clock_timestamp())
on conflict (stream_id, path) do update set state = 'open', fence = excluded.fence, finished_at = null,
  error = null, result = null, message_id = excluded.message_id, started_at = excluded.started_at
  where s.digest = excluded.digest and s.kind = excluded.kind and s.state <> 'finished'
    and (s.state <> 'open' or %(is_retry)s)
returning id"""


def dispatch(
    *,
    run_id: UUID,
    fence: int,
    worker: str,
    step: StepCall,
    nonce: UUID,
    operation: OperationCall | None = None,
    message_id: UUID | None = None,
    label: str | None = None,
    shown: dict[str, Any] | None = None,
    origin: Origin | None = None,
) -> Decision[Dispatched | Refused | InOperation]:
    """Record that a call begins, and give the right to begin it.

    Args: nonce: made by the worker before the transaction, so that after an unclear commit it can read whose
    permit it is; shown: the arguments as the events may show them (redacted); message_id: the text block that a
    model call opens; origin: of the claim, which makes the usual call of a model or a read one statement.
    Races: a cancel, an end, a deadline, another claim or an unknown operation that committed first wins, and
    Refused says which; InOperation when the operation is in a state that must not be dispatched (RULES, dispatch).
    Raises: RuleBroken when the path was used for another call or has a result already.
    """
    if operation is None and origin is not None:
        step_id = new_id()
        columns = {"id": step_id, "message": message_id} | {name: getattr(step, name) for name in step.__slots__}
        facts = _facts(step, step_id, None, None, message_id, label, shown)
        if (yield from begin_fresh(origin=origin, fence=fence, step=columns, facts=facts)):
            return Dispatched(step_id, None)
    known = None
    adds = 1
    if operation is not None:
        row = yield from lock_run(run_id)
        if row is None or row["fence"] != fence:
            return Refused("lost")
        known = yield from lock_operation(row, operation.key, step.name, step.digest)
        if known is not None and not (known["key"] == operation.key and may_dispatch(known, fence, row["stream_id"])):
            return InOperation(known["step_id"], known)
        adds = 0 if known is not None and known["state"] == OperationState.DISPATCHED else 1
    rows = yield Query(GATE, {"run": run_id, "fence": fence, "adds": adds})
    if not rows:
        return (yield from refuse((yield from lock_run(run_id)), fence))
    run = rows[0]
    step_id = yield from begin_step(run, fence, step, message_id, is_retry=known is not None)
    operation_id = None
    if known is not None and known["state"] == OperationState.DISPATCHED:
        yield from _note_stray(known)
    if operation is not None:
        operation_id = yield from _permit(run, fence, worker, step, step_id, nonce, operation, known)
    yield from record(run, _facts(step, step_id, operation, operation_id, message_id, label, shown))
    return Dispatched(step_id, operation_id)


def refuse(run: Row | None, fence: int) -> Decision[Refused]:
    """Say why the gate did not open for the holder of this fence."""
    if run is None or run["fence"] != fence:
        return Refused("lost")
    if run["status"] in (Status.CANCEL_REQUESTED, Status.CANCELLING):
        return Refused("cancel")
    if run["status"] != Status.RUNNING:
        return Refused("not_running")
    if run["unknown_ops"]:
        return Refused("unknown_open")
    return Refused((yield from why_not(run)) or "deadline")


def begin_step(
    run: Row, fence: int, step: StepCall, message_id: UUID | None = None, *, is_retry: bool = False
) -> Decision[UUID]:
    """Open the step at its path, for the first time or again after a claim that died in it.

    Args: is_retry: its operation is sent again, so it may be open still; any other open step is under way, and a
    second call at its path would be counted and never be closed.
    """
    rows = yield Query(
        BEGIN_STEP,
        {"id": new_id(), "run": run["id"], "stream": run["stream_id"], "path": step.path, "kind": step.kind,
         "name": step.name, "effect": step.effect, "arguments": jsonb(step.arguments), "digest": step.digest,
         "fence": fence, "message": message_id, "is_retry": is_retry},
    )  # fmt: skip
    if not rows:
        raise RuleBroken(f"step {step.path} was another call before, or is open or {StepState.FINISHED} already")
    step_id: UUID = rows[0]["id"]
    return step_id


def _permit(
    run: Row,
    fence: int,
    worker: str,
    step: StepCall,
    step_id: UUID,
    nonce: UUID,
    call: OperationCall,
    known: Row | None,
) -> Decision[UUID]:
    operation_id = known["id"] if known else new_id()
    params = {
        "id": operation_id, "run": run["id"], "step": step_id, "key": call.key, "tool": step.name,
        "effect": step.effect, "process": call.is_process, "look_up": call.can_look_up,
        "arguments": jsonb(step.arguments), "digest": step.digest, "fence": fence, "worker": worker, "nonce": nonce,
        "permit": limits().permit_seconds, "bound": call.request_bound_seconds,
        # An earlier try without a receipt may still land: a later refusal proves nothing about it (RULES H8).
        "ambiguous": bool(known and (known["is_ambiguous"] or known["state"] == OperationState.DISPATCHED)),
    }  # fmt: skip
    yield Query(
        """insert into runs_operation (id, run_id, step_id, key, tool, effect, is_process, can_look_up, arguments,
             digest, state, version, fence, worker, nonce, is_ambiguous, gave_up, look_ups, settle_note,
             dispatched_at, send_by, horizon_at)
           select %(id)s, %(run)s, %(step)s, %(key)s, %(tool)s, %(effect)s, %(process)s, %(look_up)s, %(arguments)s,
             %(digest)s, 'dispatched', 1, %(fence)s, %(worker)s, %(nonce)s, %(ambiguous)s, false, 0, '',
             now, now + %(permit)s * interval '1 second', now + (%(permit)s + %(bound)s) * interval '1 second'
           from (select clock_timestamp() as now) clock
           on conflict (key) do update set state = 'dispatched', version = runs_operation.version + 1,
             step_id = excluded.step_id, settled_at = null, settled_by_id = null, settle_note = '',
             next_look_up_at = null, look_ups = 0,
             fence = excluded.fence, worker = excluded.worker, nonce = excluded.nonce,
             is_ambiguous = excluded.is_ambiguous, gave_up = false, holder_gone_at = null, receipt = null,
             dispatched_at = excluded.dispatched_at, send_by = excluded.send_by,
             horizon_at = greatest(runs_operation.horizon_at, excluded.horizon_at)""",
        params,
    )
    return operation_id


def _note_stray(operation: Row) -> Decision[None]:
    """Remember an older try without a receipt whose holder may still send it: it bars "did not happen" (RULES H6)."""
    if operation["holder_gone_at"] is None:
        yield from insert_evidence(operation["id"], operation["fence"], "stray", None, {"worker": operation["worker"]})


def _facts(
    step: StepCall,
    step_id: UUID,
    operation: OperationCall | None,
    operation_id: UUID | None,
    message_id: UUID | None,
    label: str | None,
    shown: dict[str, Any] | None,
) -> list[Fact]:
    started = {"path": step.path, "kind": step.kind, "name": step.name}
    facts = [Fact("step.started", started | ({"effect": step.effect} if step.effect else {}), step_id)]
    if step.kind == "model":
        facts.append(Fact("model.started", shown or {}, step_id))
    if step.kind == "tool":
        data: dict[str, Any] = {"tool": step.name, "effect": step.effect, "arguments": shown or {}}
        if operation is not None:
            data["operation_key"] = operation.key
        facts.append(Fact("tool.started", data, step_id))
    if operation is not None and operation_id is not None:
        sent = {"operation_key": operation.key, "operation_id": text_id("op", operation_id)}
        facts.append(Fact("tool.dispatched", sent, step_id))
    if message_id is not None:
        text: dict[str, Any] = {"message_id": text_id("msg", message_id), "role": "assistant"}
        facts.append(Fact("text.start", text | ({"label": label} if label else {}), step_id))
    return facts


def whose_permit(*, key: str, nonce: UUID) -> Decision[bool]:
    """After a commit whose answer was lost: say whether the permit is the caller's (RULES H10)."""
    rows = yield Query(
        "select nonce = %(nonce)s and state = 'dispatched' as mine from runs_operation where key = %(key)s",
        {"nonce": nonce, "key": key},
    )
    return bool(rows and rows[0]["mine"])
