"""What is undecided when a run ends: operations that nobody holds any more, and children that ended in doubt."""

from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Query, Row
from runs.ids import text_id
from runs.states import OperationState


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


def list_unknown(run_id: UUID) -> Decision[dict[str, list[dict[str, Any]]]]:
    """Name what is unknown: operations, and children that ended in doubt (as far as they were counted)."""
    rows = yield Query(
        "select id, key, tool from runs_operation where run_id = %(run)s and state = %(state)s order by created_at",
        {"run": run_id, "state": OperationState.UNKNOWN.value},
    )
    unknown = {
        "operations": [
            {"operation_id": text_id("op", r["id"]), "operation_key": r["key"], "tool": r["tool"]} for r in rows
        ]
    }
    children = yield Query(
        "select id, agent from runs_run where parent_id = %(run)s and told_parent = 'doubt' order by id",
        {"run": run_id},
    )
    if children:
        unknown["children"] = [{"child_id": text_id("run", r["id"]), "agent": r["agent"]} for r in children]
    return unknown


def count_unknown(unknown: dict[str, list[dict[str, Any]]]) -> int:
    """Count what `list_unknown` has named."""
    return sum(map(len, unknown.values()))
