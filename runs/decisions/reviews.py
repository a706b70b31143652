"""Looking at a contradicted operation: an operator says what is true, and the flag is taken down."""

from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Fact, Query, lock_run, record
from runs.decisions.evidence import insert_evidence
from runs.decisions.operations import NotSettled, Settled
from runs.ids import text_id
from runs.states import OperationState

# Where it did happen after all, the receipt that says so is the operation's from now on.
REVIEW = """
update runs_operation o set contradicted_at = null, version = version + 1, settled_at = clock_timestamp(),
  settled_by_id = %(by)s, settle_note = %(note)s,
  state = case when %(happened)s::bool = (state in ('confirmed', 'succeeded')) then state
    when %(happened)s::bool then 'confirmed' else 'refuted' end,
  receipt = case when %(happened)s::bool and state in ('failed', 'refuted') then coalesce((
    select detail from runs_evidence e where e.operation_id = o.id and e.happened and e.kind = 'receipt'
    order by at desc limit 1), receipt) else receipt end
where id = %(op)s and version = %(version)s and contradicted_at is not null
  and state in ('confirmed', 'failed', 'refuted', 'succeeded')
returning key, fence, step_id, state"""


def review(
    *, operation_id: UUID, version: int, happened: bool, by: int, by_name: str, note: str
) -> Decision[Settled | NotSettled]:
    """Decide a contradicted operation by an operator's word. Its evidence stays; its run may be retried again.

    Args: version: as the operator read it. Races: whoever changed it since wins, then NotSettled("stale").
    """
    rows = yield Query("select run_id from runs_operation where id = %(op)s", {"op": operation_id})
    if not rows:
        return NotSettled("missing")
    run = yield from lock_run(rows[0]["run_id"])
    assert run is not None  # a foreign key holds it
    reviewed = yield Query(
        REVIEW, {"op": operation_id, "version": version, "happened": happened, "by": by, "note": note}
    )
    if not reviewed:
        return NotSettled("stale")
    operation = reviewed[0]
    detail: dict[str, Any] = {"proof": "verdict", "note": note, "review": True}
    yield from insert_evidence(operation_id, operation["fence"], "verdict", happened, detail, by)
    said = {
        "operation_id": text_id("op", operation_id), "operation_key": operation["key"], "outcome": operation["state"],
        "source": "review", "by": by_name, "note": note,
    }  # fmt: skip
    yield from record(run, [Fact("operation.settled", said)])
    return Settled(OperationState(operation["state"]), run["status"])
