"""The ledger after the fact: what a new holder makes of an old dispatch, and how an unknown outcome is settled."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.decisions.claims import Lost
from runs.decisions.core import Decision, Fact, Query, Row, jsonb, lock_run, record, tell_parent
from runs.decisions.evidence import insert_evidence
from runs.decisions.turns import start_next
from runs.ids import text_id
from runs.states import OperationState, Status


@dataclass(frozen=True, slots=True)
class Settled:
    """The operation is decided; `run_status` is what the run is now."""

    state: OperationState
    run_status: str


@dataclass(frozen=True, slots=True)
class NotSettled:
    """stale (its version moved) | decided | not_yet (something may still land) | receipt (it happened) | missing."""

    reason: str
    horizon_at: datetime | None = None
    holder_gone: bool = False


def mark_unknown(*, run_id: UUID, fence: int, operation_id: UUID, message: str) -> Decision[bool | Lost]:
    """Let a new holder say that an older claim's dispatch has no receipt: `dispatched` becomes `unknown`.

    Stored evidence of that dispatch is taken first: then the operation is `succeeded`, and True is returned.
    """
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence or run["status"] != Status.RUNNING:
        return Lost()
    rows = yield Query(
        """select o.*, (select detail from runs_evidence e where e.operation_id = o.id and e.fence = o.fence
             and e.happened order by at limit 1) as proof
           from runs_operation o where id = %(op)s and run_id = %(run)s and state = 'dispatched' and fence < %(fence)s
           for no key update of o""",
        {"op": operation_id, "run": run_id, "fence": fence},
    )
    if not rows:
        return False
    operation = rows[0]
    proof = operation["proof"]
    yield Query(
        """update runs_operation set state = %(state)s, version = version + 1, receipt = %(receipt)s,
             next_look_up_at = clock_timestamp() where id = %(op)s""",
        {"op": operation_id, "state": "unknown" if proof is None else "succeeded",
         "receipt": jsonb(operation["receipt"] if proof is None else proof)},
    )  # fmt: skip
    yield Query(
        """update runs_run set open_ops = open_ops - 1, unknown_ops = unknown_ops + %(unknown)s, version = version + 1
           where id = %(run)s and fence = %(fence)s""",
        {"run": run_id, "fence": fence, "unknown": int(proof is None)},
    )
    if proof is None:
        data = {"operation_key": operation["key"], "operation_id": text_id("op", operation_id), "message": message}
        yield from record(run, [Fact("tool.unknown", data, operation["step_id"])])
    return proof is not None


def record_evidence(
    *, operation_id: UUID, fence: int, kind: str, happened: bool | None, detail: dict[str, Any], by: int | None = None
) -> Decision[UUID]:
    """Store what was learnt about one dispatch. Evidence against a decision raises a flag, never flips it (H7).

    A receipt of an `unknown` operation makes it due at the supervisor, who may have given up on it before, and adds to
    its version: nobody calls it "did not happen" who has not seen the receipt. A
    contradiction is told in the current stream of its run, also when the operation is of an earlier attempt.
    """
    against = yield from _contradicted(operation_id, fence, kind, happened)
    run = (yield from lock_run(against["run_id"])) if against is not None else None
    evidence_id = yield from insert_evidence(operation_id, fence, kind, happened, detail, by)
    if happened:
        yield Query(
            """update runs_operation set version = version + 1,
                 next_look_up_at = case when fence = %(fence)s then clock_timestamp() else next_look_up_at end
               where id = %(op)s and state = 'unknown'""",
            {"op": operation_id, "fence": fence},
        )
    if happened is not None:
        flagged = yield Query(
            f"""update runs_operation o set contradicted_at = clock_timestamp(), version = version + 1
                where id = %(op)s and contradicted_at is null and {AGAINST} returning id""",
            {"op": operation_id, "fence": fence, "happened": happened, "kind": kind},
        )
        if flagged and run is not None and against is not None:
            yield from _tell_late(run, against, happened, detail)
    return evidence_id


# Evidence of the dispatch that was decided otherwise; or a receipt of a write that was taken for not sent, and is sent
# again by now: that may be a second effect. An idempotent call under the same key has one effect, however often sent.
AGAINST = """%(kind)s::varchar <> 'refusal' and (
  (o.fence = %(fence)s and o.state = any(case when %(happened)s then array['failed', 'refuted']
                                         else array['confirmed', 'succeeded'] end))
  or (o.fence > %(fence)s and %(happened)s and o.effect = 'write' and exists (
    select 1 from runs_step s join runs_attempt a on a.stream_id = s.stream_id
    where s.id = o.step_id and a.number > 1)))"""


def _contradicted(operation_id: UUID, fence: int, kind: str, happened: bool | None) -> Decision[Row | None]:
    """Look, without a lock, whether evidence will contradict a decision; only then its run's stream is told."""
    if happened is None:
        return None
    rows = yield Query(
        f"select * from runs_operation o where id = %(op)s and contradicted_at is null and {AGAINST}",
        {"op": operation_id, "fence": fence, "happened": happened, "kind": kind},
    )
    return rows[0] if rows else None


def _tell_late(run: Row, operation: Row, happened: bool, detail: dict[str, Any]) -> Decision[None]:
    data = {
        "operation_id": text_id("op", operation["id"]), "operation_key": operation["key"], "tool": operation["tool"],
        "decided": operation["state"], "happened": happened, "proof": detail.get("proof"),
    }  # fmt: skip
    yield from record(run, [Fact("operation.late_receipt", data)])


# "Did not happen" counts only when nothing can land any more, of no try of the key (RULES H6).
NOTHING_CAN_LAND = """holder_gone_at is not null and horizon_at < clock_timestamp() and not exists (
  select 1 from runs_evidence stray where stray.operation_id = runs_operation.id and stray.kind = 'stray'
    and not exists (select 1 from runs_evidence seen where seen.operation_id = stray.operation_id
                      and seen.fence = stray.fence and seen.kind = 'exit'))"""
# Nor where a receipt of any try says that it did. One that is stored meanwhile adds to the operation's version.
NO_RECEIPT = """not exists (
  select 1 from runs_evidence said where said.operation_id = runs_operation.id and said.happened)"""


def settle(
    *,
    operation_id: UUID,
    version: int,
    happened: bool,
    source: str,
    detail: dict[str, Any],
    by: int | None = None,
    by_name: str | None = None,
    note: str = "",
    sealed: bool = False,
    override: bool = False,
) -> Decision[Settled | NotSettled]:
    """Decide an unknown operation: by a look-up, a late receipt, or an operator's verdict.

    Args: version: as the decider read it; source: look_up | receipt | verdict; sealed: the target refuses this
    key from now on; override: an operator says how they know although nobody saw the holder's end. Against a receipt
    nothing helps.
    With its last unknown operation a parked run becomes what it would have been (run.reconciled).
    """
    rows = yield Query("select run_id from runs_operation where id = %(op)s", {"op": operation_id})
    if not rows:
        return NotSettled("missing")
    run = yield from lock_run(rows[0]["run_id"])
    assert run is not None  # a foreign key holds it
    state = OperationState.CONFIRMED if happened else OperationState.REFUTED
    settled = yield Query(
        f"""update runs_operation set state = %(state)s, version = version + 1, settled_at = clock_timestamp(),
              settled_by_id = %(by)s, settle_note = %(note)s, next_look_up_at = null,
              receipt = case when %(happened)s then %(detail)s else receipt end
            where id = %(op)s and state = 'unknown' and version = %(version)s
              and (%(happened)s or (({NO_RECEIPT}) and (%(free)s or ({NOTHING_CAN_LAND}))))
            returning key, fence, step_id""",
        {"op": operation_id, "version": version, "state": state.value, "by": by, "note": note, "happened": happened,
         "detail": jsonb(detail), "free": sealed or override},
    )  # fmt: skip
    if not settled:
        return (yield from _why_not(operation_id, version))
    operation = settled[0]
    kept = detail | ({"note": note} if note else {}) | ({"override": True} if override else {})
    yield from insert_evidence(operation_id, operation["fence"], source, happened, kept, by)
    yield Query("update runs_run set unknown_ops = unknown_ops - 1 where id = %(run)s", {"run": run["id"]})
    data = {
        "operation_id": text_id("op", operation_id), "operation_key": operation["key"], "outcome": state.value,
        "source": source, "by": by_name, "note": note,
    }  # fmt: skip
    yield from record(run, [Fact("operation.settled", data, operation["step_id"])])
    status = yield from reconcile(run)
    return Settled(state, status)


def _why_not(operation_id: UUID, version: int) -> Decision[NotSettled]:
    rows = yield Query(
        f"""select state, version, horizon_at, holder_gone_at, not ({NO_RECEIPT}) as has_receipt
            from runs_operation where id = %(op)s""",
        {"op": operation_id},
    )
    operation = rows[0]
    if operation["state"] != OperationState.UNKNOWN:
        return NotSettled("decided")
    if operation["version"] != version:
        return NotSettled("stale")
    if operation["has_receipt"]:
        return NotSettled("receipt")
    return NotSettled("not_yet", operation["horizon_at"], operation["holder_gone_at"] is not None)


RECONCILE = """
update runs_run set status = case when cancel_id is not null then 'cancelled'
    when has_result then 'completed' else 'failed' end,
  error_code = case when cancel_id is null and not has_result then 'interrupted' end,
  error_message = case when cancel_id is null and not has_result
    then 'The run was interrupted; what it had sent has been verified. It does not go on by itself.' end
where id = %(run)s and status = 'needs_reconciliation' and unknown_ops = 0 returning status"""


def reconcile(run: Row) -> Decision[str]:
    """Leave needs_reconciliation once nothing is unknown; the end time and the terminal event stay."""
    rows = yield Query(RECONCILE, {"run": run["id"]})
    if not rows:
        current: str = run["status"]
        return current
    status: str = rows[0]["status"]
    yield Query(
        "update runs_attempt set status = %(status)s where stream_id = %(stream)s",
        {"status": status, "stream": run["stream_id"]},
    )
    yield from record(run, [Fact("run.reconciled", {"status": status})])
    yield from tell_parent(run)
    yield from start_next(run)
    return status


def plan_look_up(*, operation_id: UUID, seconds: float | None) -> Decision[None]:
    """Count a look-up that brought no answer, and say when to ask again (None: it is the operators' now)."""
    yield Query(
        """update runs_operation set look_ups = look_ups + 1,
             next_look_up_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
           where id = %(op)s and state = 'unknown'""",
        {"op": operation_id, "seconds": seconds},
    )


def ask_again(*, operation_id: UUID) -> Decision[str | None]:
    """Make an unknown operation of an ended run due for a look-up at once. None, or why not.

    Why not: "decided"; "running" (the run's worker asks by itself); "no_look_up" (the tool offers none). The version
    stays: a verdict that is being written meanwhile is as good as before.
    """
    rows = yield Query(
        """update runs_operation o set next_look_up_at = clock_timestamp() from runs_run r
           where o.id = %(op)s and r.id = o.run_id and o.state = 'unknown' and o.can_look_up
             and r.terminal_at is not null returning o.id""",
        {"op": operation_id},
    )
    if rows:
        return None
    rows = yield Query(
        """select case when o.state <> 'unknown' then 'decided' when not o.can_look_up then 'no_look_up'
             else 'running' end as reason from runs_operation o where o.id = %(op)s""",
        {"op": operation_id},
    )
    reason: str = rows[0]["reason"]
    return reason
