"""Closing what a claim or an end leaves open: steps, their text blocks, and the calls they stand for."""

from dataclasses import dataclass
from typing import Any

from runs.decisions.core import Decision, Fact, Query, Row
from runs.ids import text_id


@dataclass(frozen=True, slots=True)
class Closed:
    """What was closed: the events to record, and how many of the steps were calls in flight."""

    facts: list[Fact]
    calls: int


OPEN_STEPS = """
select s.id, s.path, s.kind, s.effect, s.name, s.message_id, s.fence,
  exists (select 1 from runs_operation o where o.step_id = s.id) as has_operation
from runs_step s where s.stream_id = %(stream)s and s.state = 'open' order by s.started_at, s.path"""


def end_of_text(message_id: Any, *, final: bool, reason: str | None) -> Fact:
    """Make the event that ends a text block; a text that is not final says why."""
    data: dict[str, Any] = {"message_id": text_id("msg", message_id), "final": final}
    if reason:
        data["reason"] = reason
    return Fact("text.end", data)


def close_steps(run: Row, *, repeatable_only: bool, state: str, reason: str) -> Decision[Closed]:
    """Close the open steps of the current stream and their text blocks.

    Args: repeatable_only: only reads and model calls (a new claim); else every open step (an end).
    Reads and model calls in flight leave `open_ops` here; operations of the ledger are counted where their
    outcome is decided.
    """
    rows = yield Query(OPEN_STEPS, {"stream": run["stream_id"]})
    calls = [r for r in rows if r["kind"] in ("model", "tool") and not r["has_operation"]]
    chosen = calls if repeatable_only else rows
    facts: list[Fact] = []
    for row in chosen:
        if row["message_id"] is not None:
            end = end_of_text(row["message_id"], final=False, reason=reason)
            facts.append(Fact(end.type, end.data, row["id"]))
        if row["kind"] == "model":
            facts.append(Fact("model.finished", {"provider_side": "unknown", "stop_reason": reason}, row["id"]))
        facts.append(Fact("step.finished", {"path": row["path"], "kind": row["kind"], "state": state}, row["id"]))
    if chosen:
        yield Query(
            """update runs_step set state = %(state)s, finished_at = clock_timestamp(), message_id = null
               where id = any(%(ids)s) and state = 'open'""",
            {"state": state, "ids": [r["id"] for r in chosen]},
        )
    if calls:
        yield Query(
            "update runs_run set open_ops = open_ops - %(n)s where id = %(run)s", {"n": len(calls), "run": run["id"]}
        )
    return Closed(facts, len(calls))
