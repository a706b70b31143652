"""Undoing a committed effect, by a person's word: an operation of its own, sent once, whose outcome may be unknown too.

    intended ─► dispatched ─► succeeded | failed (refused for certain)
                          └─► unknown ─► confirmed | refuted     (a person's word)

It needs no status of the run and no permit of it, and changes no counter: the run is over with what it did. What
happens is told in the run's current stream.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Fact, Query, Row, jsonb, lock_run, record
from runs.ids import new_id, text_id
from runs.states import OperationState


@dataclass(frozen=True, slots=True)
class NotCompensated:
    """missing | stale (its version moved) | not_committed | exists (one that counts: `compensation_id`)."""

    reason: str
    compensation_id: UUID | None = None


def request(*, operation_id: UUID, version: int, by: int, by_name: str, note: str) -> Decision[UUID | NotCompensated]:
    """Put down that an effect is to be undone; a supervisor sends it. Returns the compensation's id.

    Args: version: of the operation, as the person read it.
    Races: of two who ask at once the second gets `exists`. One that has failed, or is known not to have happened, does
    not count: then another one may be asked for, under a key of its own.
    """
    operation = yield from _lock(operation_id)
    if operation is None:
        return NotCompensated("missing")
    if operation["version"] != version:
        return NotCompensated("stale")
    if operation["state"] not in (OperationState.SUCCEEDED, OperationState.CONFIRMED):
        return NotCompensated("not_committed")
    tries = yield Query(
        "select id, state from runs_compensation where operation_id = %(op)s order by number", {"op": operation_id}
    )
    counting = [t["id"] for t in tries if t["state"] not in ("failed", "refuted")]
    if counting:
        return NotCompensated("exists", counting[0])
    number = len(tries) + 1
    rows = yield Query(
        """insert into runs_compensation (id, operation_id, key, number, state, version, requested_at, requested_by_id,
             note, settle_note)
           values (%(id)s, %(op)s, %(key)s, %(number)s, 'intended', 1, clock_timestamp(), %(by)s, %(note)s, '')
           returning *""",
        {"id": new_id(), "op": operation_id, "key": f"comp:{operation['key']}#{number}", "number": number, "by": by,
         "note": note},
    )  # fmt: skip
    yield from _tell(operation, rows[0], "compensation.requested", {"by": by_name, "note": note})
    made: UUID = rows[0]["id"]
    return made


def begin(*, compensation_id: UUID, bound_seconds: float) -> Decision[Row | None]:
    """Take a compensation for sending. None: it was taken before, so it is never sent twice.

    Args: bound_seconds: after which no answer comes any more; then a sweep says that nobody knows.
    Returns its row with the operation's tool, arguments and receipt.
    """
    operation = yield from _lock_of(compensation_id)
    rows = yield Query(
        """update runs_compensation set state = 'dispatched', version = version + 1, dispatched_at = clock_timestamp(),
             horizon_at = clock_timestamp() + %(bound)s * interval '1 second'
           where id = %(id)s and state = 'intended' returning *""",
        {"id": compensation_id, "bound": bound_seconds},
    )
    if operation is None or not rows:
        return None
    yield from _tell(operation, rows[0], "compensation.dispatched", {})
    return rows[0] | {
        name: operation[name] for name in ("tool", "arguments", "receipt", "run_id", "step_id", "tenant_id")
    }


def finish(*, compensation_id: UUID, state: OperationState, receipt: dict[str, Any]) -> Decision[bool]:
    """Record how a dispatched compensation went: succeeded, failed or unknown. An answer that is late still counts.

    False: somebody has decided it meanwhile; their word stands.
    """
    assert state in (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.UNKNOWN)
    return (
        yield from _move(compensation_id, state, ("dispatched", "unknown"), receipt, {"proof": receipt.get("proof")})
    )


def give_up(*, compensation_id: UUID) -> Decision[bool]:
    """Say that nobody knows, once no answer can come any more: whoever sent it is gone."""
    receipt = {"proof": "no answer", "error": "Whoever sent it did not come back with an answer."}
    rows = yield Query(
        "select 1 from runs_compensation where id = %(id)s and horizon_at < clock_timestamp()", {"id": compensation_id}
    )
    if not rows:
        return False
    return (yield from _move(compensation_id, OperationState.UNKNOWN, ("dispatched",), receipt, {}))


def settle(*, compensation_id: UUID, version: int, happened: bool, by: int, by_name: str, note: str) -> Decision[bool]:
    """Decide an unknown compensation by a person's word. False: it is decided, or its version moved."""
    state = OperationState.CONFIRMED if happened else OperationState.REFUTED
    said = {"by": by_name, "note": note}
    return (
        yield from _move(compensation_id, state, ("unknown",), None, said, version=version, settled_by=by, note=note)
    )


def _move(
    compensation_id: UUID,
    state: OperationState,
    from_states: tuple[str, ...],
    receipt: dict[str, Any] | None,
    said: dict[str, Any],
    *,
    version: int | None = None,
    settled_by: int | None = None,
    note: str = "",
) -> Decision[bool]:
    operation = yield from _lock_of(compensation_id)
    rows = yield Query(
        """update runs_compensation set state = %(state)s::varchar, version = version + 1,
             receipt = coalesce(%(receipt)s, receipt), settled_by_id = %(by)s, settle_note = %(note)s,
             finished_at = case when %(state)s::varchar = 'unknown' then null else clock_timestamp() end
           where id = %(id)s and state = any(%(from)s) and version = coalesce(%(version)s::int8, version)
           returning *""",
        {"id": compensation_id, "state": state.value, "from": list(from_states), "receipt": jsonb(receipt),
         "version": version, "by": settled_by, "note": note},
    )  # fmt: skip
    if operation is None or not rows:
        return False
    yield from _tell(operation, rows[0], "compensation.finished", said)
    return True


def _lock_of(compensation_id: UUID) -> Decision[Row | None]:
    rows = yield Query("select operation_id from runs_compensation where id = %(id)s", {"id": compensation_id})
    return (yield from _lock(rows[0]["operation_id"])) if rows else None


def _lock(operation_id: UUID) -> Decision[Row | None]:
    """Lock the run, then read its operation as it is now: everything about its compensations meets here."""
    rows = yield Query("select run_id from runs_operation where id = %(op)s", {"op": operation_id})
    run = (yield from lock_run(rows[0]["run_id"])) if rows else None
    if run is None:
        return None
    found = yield Query("select * from runs_operation where id = %(op)s", {"op": operation_id})
    return found[0] | {"run": run, "tenant_id": run["tenant_id"]}


def _tell(operation: Row, compensation: Row, kind: str, said: dict[str, Any]) -> Decision[None]:
    data = {
        "compensation_id": text_id("comp", compensation["id"]), "compensation_key": compensation["key"],
        "operation_id": text_id("op", operation["id"]), "operation_key": operation["key"], "tool": operation["tool"],
        "state": compensation["state"], **said,
    }  # fmt: skip
    yield from record(operation["run"], [Fact(kind, data, operation["step_id"])])
