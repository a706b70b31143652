"""What happens to a step after it began: its receipt, and the steps that need no call at all."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.claims import Lost
from runs.decisions.core import (
    TOLD,
    Decision,
    Fact,
    Query,
    Row,
    jsonb,
    lock_run,
    record,
    ring,
    see_run,
    told_params,
    write,
)
from runs.decisions.dispatch import Refused, StepCall, begin_step
from runs.decisions.steps_closing import end_of_text
from runs.errors import RuleBroken
from runs.ids import text_id
from runs.states import OperationState, StepState


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What the holder knows of its call: succeeded | failed | unknown | refuted (a permit given back unused)."""

    state: str
    receipt: dict[str, Any]
    gave_up: bool = False  # nothing more comes from this process for it (counts for RULES H6)


@dataclass(frozen=True, slots=True)
class Done:
    """Stored. `operation_state` is what the ledger made of the outcome (a refusal may have become unknown)."""

    operation_state: str | None


WORKING = "fence = %(fence)s and status in ('running', 'cancel_requested', 'cancelling')"

# The counters, the ledger, the step and its events in one statement; without the guarded row nothing of it happens.
FINISH = f"""
with held as (
  update runs_run set open_ops = open_ops - %(closes)s, unknown_ops = unknown_ops + %(unknown)s,
    input_tokens = input_tokens + %(tokens_in)s, output_tokens = output_tokens + %(tokens_out)s,
    last_seq = last_seq + %(n)s, version = version + 1
  where id = %(run)s and version = %(version)s and {WORKING}
  returning id, tenant_id, stream_id, last_seq - %(n)s as base, version
), ledger as (
  update runs_operation set state = %(outcome)s, receipt = %(receipt)s, version = version + 1, gave_up = %(gave_up)s,
    holder_gone_at = case when %(gave_up)s then clock_timestamp() else holder_gone_at end,
    next_look_up_at = case when %(outcome)s::varchar = 'unknown' then clock_timestamp() + interval '1 second' end
  where id = %(operation)s and state = 'dispatched' and exists (select 1 from held)
), step as (
  update runs_step set state = %(state)s, result = %(result)s, error = %(error)s, usage = %(usage)s,
    finished_at = clock_timestamp(), message_id = null
  where id = %(step)s and state = 'open' and %(ends)s and exists (select 1 from held)
), told as ({TOLD.format(row="held", data="e.data")}
)
select * from held"""

STEP = """
select s.id as step_id, s.path, s.kind, s.state as step_state, s.message_id, s.started_at as step_started_at,
  o.id as operation_id, o.state as operation_state, o.is_ambiguous, o.key as operation_key
from runs_step s left join runs_operation o on o.step_id = s.id where s.id = %(step)s"""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended, as its holder says."""

    state: str  # finished | failed | abandoned
    result: Any = None
    error: dict[str, Any] | None = None
    usage: dict[str, int] | None = None
    model: dict[str, Any] | None = None
    tool: dict[str, Any] | None = None
    outcome: OperationOutcome | None = None
    reason: str | None = None


def finish_step(*, run_id: UUID, fence: int, step_id: UUID, state: str, **how: Any) -> Decision[Done | Lost]:
    """Store how a step ended: finished, failed, or abandoned.

    Args: how: fields of StepEnd: usage: {"input_tokens", "output_tokens"}; model: data of model.finished; tool: data
    of tool.result; reason: why a text is not final. An unknown outcome leaves the step open and is no end of it.
    Races: a lost fence returns Lost; the caller may only leave evidence then. A step that is closed, or whose
    operation has its outcome, is not ended or counted again: Done says what is stored.
    Raises: RuleBroken when a dispatched operation would be left behind without an outcome.
    """
    end = StepEnd(state, **how)
    seen = yield from see_run(run_id, STEP, step=step_id)
    done = yield from _finish(seen, seen, fence, end, is_alone=True)
    if done is None:  # the run has moved on since it was read
        run = yield from lock_run(run_id)
        rows = yield Query(STEP, {"step": step_id})
        done = yield from _finish(run, rows[0], fence, end)
    return done or Lost()


def _finish(
    run: Row | None, step: Row | None, fence: int, end: StepEnd, *, is_alone: bool = False
) -> Decision[Done | Lost | None]:
    """Finish a step of the run as both were read. None: it has another version by now, and nothing was written."""
    if run is None or step is None or run["fence"] != fence:
        return Lost()
    outcome, tokens = end.outcome, end.usage or {}
    is_dispatched = step["operation_state"] == OperationState.DISPATCHED
    if step["step_state"] != StepState.OPEN or (outcome is not None and not is_dispatched):
        return Done(step["operation_state"])
    if outcome is None and is_dispatched:
        raise RuleBroken(f"step {step['path']} cannot end while its operation has no outcome")
    stored = _decide_outcome(step, outcome)
    was_counted = step["kind"] in ("model", "tool") and step["operation_state"] in (None, OperationState.DISPATCHED)
    is_unknown = stored == OperationState.UNKNOWN
    drafts = write(run, [_unknown_fact(step, outcome)] if is_unknown else _finish_facts(run, step, end))
    rows = yield Query(
        FINISH,
        {"run": run["id"], "version": run["version"], "fence": fence, "closes": int(was_counted),
         "unknown": int(is_unknown), "tokens_in": tokens.get("input_tokens", 0),
         "tokens_out": tokens.get("output_tokens", 0),
         "operation": None if outcome is None else step["operation_id"], "outcome": stored,
         "receipt": None if outcome is None else jsonb(outcome.receipt),
         "gave_up": outcome is not None and outcome.gave_up, "step": step["step_id"], "ends": not is_unknown,
         "state": end.state, "result": jsonb({"value": end.result}), "error": jsonb(end.error),
         "usage": jsonb(end.usage), **told_params(drafts)},
        is_alone,
    )  # fmt: skip
    if not rows:
        return None
    yield from ring(rows[0], drafts)
    return Done(stored)


def _unknown_fact(step: Row, outcome: OperationOutcome | None) -> Fact:
    operation = {"operation_key": step["operation_key"], "operation_id": text_id("op", step["operation_id"])}
    return Fact(
        "tool.unknown", operation | {"message": outcome.receipt.get("error", "") if outcome else ""}, step["step_id"]
    )


def _decide_outcome(step: Row, outcome: OperationOutcome | None) -> str | None:
    if outcome is None:
        return None
    if outcome.state in ("failed", "refuted") and step["is_ambiguous"]:
        return OperationState.UNKNOWN.value  # an earlier try may have landed (RULES H8)
    return OperationState(outcome.state).value


def _finish_facts(run: Row, step: Row, end: StepEnd) -> list[Fact]:
    facts: list[Fact] = []
    step_id = step["step_id"]
    if step["message_id"] is not None:
        text = end_of_text(step["message_id"], final=end.state == "finished", reason=end.reason)
        facts.append(Fact(text.type, text.data, step_id))
    if step["kind"] == "model":
        usage = {"usage": end.usage} if end.usage else {}
        facts.append(Fact("model.finished", (end.model or {}) | usage, step_id))
    if step["kind"] == "tool":
        facts.append(Fact("tool.result", end.tool or {"ok": end.state == "finished"}, step_id))
    if end.usage:
        facts.append(Fact("usage", dict(end.usage), step_id))
    took = round((run["now"] - step["step_started_at"]).total_seconds() * 1000)
    data: dict[str, Any] = {"path": step["path"], "kind": step["kind"], "state": end.state, "duration_ms": took}
    facts.append(Fact("step.finished", data | ({"error": end.error} if end.error else {}), step_id))
    return facts


def lock_running(run_id: UUID, fence: int) -> Decision[Row | Refused]:
    """Lock a run that the caller holds and that may begin something; else say why not."""
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence:
        return Refused("lost")
    rows = yield Query(
        "select id from runs_run where id = %(run)s and fence = %(fence)s and status = 'running'",
        {"run": run_id, "fence": fence},
    )
    if not rows:
        return Refused("cancel" if run["cancel_id"] else "not_running")
    return run


def instant_step(
    *, run_id: UUID, fence: int, step: StepCall, result: Any, facts: list[Fact], operation_id: UUID | None = None
) -> Decision[Done | Refused]:
    """Begin and finish a step that calls nothing outside (a text that the agent says, a receipt that is there already).

    Args: operation_id: the committed operation whose receipt it is; from now on it belongs to this step.
    """
    run = yield from lock_running(run_id, fence)
    if isinstance(run, Refused):
        return run
    step_id = yield from begin_step(run, fence, step, None)
    yield Query(
        """update runs_step set state = 'finished', result = %(result)s, finished_at = clock_timestamp()
           where id = %(step)s""",
        {"step": step_id, "result": jsonb({"value": result})},
    )
    if operation_id is not None:
        yield Query(
            "update runs_operation set step_id = %(step)s, version = version + 1 where id = %(operation)s",
            {"step": step_id, "operation": operation_id},
        )
    opened = Fact("step.started", {"path": step.path, "kind": step.kind, "name": step.name}, step_id)
    closed = Fact("step.finished", {"path": step.path, "kind": step.kind, "state": "finished"}, step_id)
    yield from record(run, [opened, *(Fact(f.type, f.data, step_id) for f in facts), closed])
    return Done(None)


def set_title(*, run_id: UUID, fence: int, title: str) -> Decision[Done | Lost]:
    """Give the run a one-line summary, once the agent knows one."""
    run = yield from lock_run(run_id)
    rows = yield Query(
        f"update runs_run set title = %(title)s where id = %(run)s and {WORKING} returning id",
        {"run": run_id, "fence": fence, "title": title},
    )
    if run is None or not rows:
        return Lost()
    yield from record(run, [Fact("run.titled", {"title": title})])
    return Done(None)


def store_artifact(
    *, run_id: UUID, fence: int, artifact_id: UUID, name: str, content_type: str, content: bytes, sha256: str
) -> Decision[UUID | Lost]:
    """Store a file that the run made, and say so in the stream. The same name again is replaced: its id stays."""
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence or run["status"] not in ("running", "cancelling", "cancel_requested"):
        return Lost()
    rows = yield Query(
        """insert into runs_artifact (id, run_id, name, content_type, content, size_bytes, sha256)
           values (%(id)s, %(run)s, %(name)s, %(type)s, %(content)s, %(size)s, %(sha)s)
           on conflict (run_id, name) do update set content_type = excluded.content_type,
             content = excluded.content, size_bytes = excluded.size_bytes, sha256 = excluded.sha256
           returning id""",
        {"id": artifact_id, "run": run_id, "name": name, "type": content_type, "content": content,
         "size": len(content), "sha": sha256},
    )  # fmt: skip
    stored: UUID = rows[0]["id"]
    data = {"artifact_id": text_id("art", stored), "name": name, "content_type": content_type, "bytes": len(content)}
    yield from record(run, [Fact("artifact.created", data)])
    return stored
