"""The cancel receipt: for each thing that a stop met, what became of it, and by which proof."""

from typing import Any

from runs.decisions.core import Decision, Query, Row
from runs.ids import text_id
from runs.states import RECEIPT_WORD, OperationState, Status, StepState

CALLS = """
select s.id, s.path, s.kind, s.name, s.state, s.effect, s.finished_at, s.error,
  o.id as operation_id, o.key, o.state as operation_state, o.receipt, o.is_process,
  c.id as child_id, c.status as child_status, c.started_at as child_started_at
from runs_step s left join runs_operation o on o.step_id = s.id
  left join runs_run c on c.parent_step_id = s.id
where s.stream_id = %(stream)s and s.kind in ('model', 'tool', 'child')
  and (o.id is not null or c.id is not null or s.finished_at is null or s.finished_at >= %(since)s)
order by s.started_at, s.path"""


def list_effects(run: Row) -> Decision[list[dict[str, Any]]]:
    """List every operation and child of the attempt, and each read or model call that was open when the stop was asked.

    Shape: {"step_id", "path", "name", "kind", "operation_id"?, "operation_key"?, "child_id"?, "outcome", "proof"?,
    "provider_side"?}; outcome is not_started | pending | stopped | finished_first | committed | abandoned | unknown.
    """
    since = run["cancel_requested_at"] or run["now"]
    rows = yield Query(CALLS, {"stream": run["stream_id"], "since": since})
    return [describe(row, since) for row in rows]


def describe(row: Row, since: Any) -> dict[str, Any]:
    """Put one call of the receipt into words."""
    entry: dict[str, Any] = {
        "step_id": text_id("step", row["id"]), "path": row["path"], "name": row["name"], "kind": row["kind"],
    }  # fmt: skip
    if row["child_id"] is not None:
        return entry | _of_child(row)
    if row["operation_id"] is None:
        return entry | _of_call(row)
    receipt = row["receipt"] or {}
    state = OperationState(row["operation_state"])
    entry |= {
        "operation_id": text_id("op", row["operation_id"]),
        "operation_key": row["key"],
        "outcome": RECEIPT_WORD[state],
    }
    if row["is_process"] and state == OperationState.SUCCEEDED:
        was_over = row["finished_at"] is not None and row["finished_at"] < since  # ran out of its own time, say
        entry["outcome"] = "stopped" if receipt.get("stopped") and not was_over else "finished_first"
    if receipt.get("proof"):
        entry["proof"] = receipt["proof"]
    if receipt.get("external_id"):
        entry["external_id"] = receipt["external_id"]
    return entry


def _of_call(row: Row) -> dict[str, Any]:
    if row["state"] == StepState.OPEN:
        return {"outcome": "pending"}
    if row["state"] == StepState.FINISHED:
        return {"outcome": "finished_first"}
    provider_side = (row["error"] or {}).get("provider_side", "unknown")
    return {"outcome": "abandoned"} | ({"provider_side": provider_side} if row["kind"] == "model" else {})


# A child says for itself what became of its calls; the parent's receipt says how the child ended.
CHILD_WORD = {
    Status.COMPLETED: "finished_first",
    Status.FAILED: "finished_first",
    Status.CANCELLED: "stopped",
    Status.NEEDS_RECONCILIATION: "unknown",
}


def _of_child(row: Row) -> dict[str, Any]:
    word = CHILD_WORD.get(Status(row["child_status"]), "pending")
    if word == "stopped" and row["child_started_at"] is None:
        word = "not_started"
    child_id = text_id("run", row["child_id"])
    return {"child_id": child_id, "outcome": word} | ({} if word == "pending" else {"proof": f"receipt of {child_id}"})
