"""Creating a run: its row, its first attempt, its first event and the outbox row, in one transaction."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import Advance, Bell, Decision, Query, Row, jsonb
from runs.frames import Origin, bell, draft, tenant_bell, write_time
from runs.ids import id_after, new_id, text_id


@dataclass(frozen=True, slots=True)
class NewRun:
    """Everything that a creator decides; checked before it comes here."""

    tenant_id: UUID
    user_id: int
    agent: str
    title: str
    input: dict[str, Any]
    metadata: dict[str, Any]
    deadline_seconds: float
    on_disconnect: str  # continue | grace
    grace_seconds: float | None
    idempotency_key: str | None
    idempotency_digest: str | None
    budget_tokens: int | None = None  # what the run and everything that it begins may spend


@dataclass(frozen=True, slots=True)
class Parentage:
    """Which step of which run begins a child; until: the parent's own deadline."""

    parent_id: UUID
    step_id: UUID
    root_id: UUID
    until: datetime | None


# One statement, since nobody else knows the run yet: six round trips less before a worker can be asked.
INSERT = """
with made as (
  insert into runs_run (id, tenant_id, created_by_id, agent, title, input, metadata, idempotency_key,
    idempotency_digest, version, status, attempt, stream_id, last_seq, floor_seq, fence, last_batch, last_batch_seq,
    open_ops, unknown_ops, wakes, cancel_note, has_result, input_tokens, output_tokens, on_disconnect, grace_seconds,
    control_count, created_at, deadline_at, grace_expires_at, budget_tokens, parent_id, parent_step_id, root_id,
    conversation_id, turn, history)
  select %(id)s, %(tenant)s, %(user)s, %(agent)s, %(title)s, %(input)s, %(metadata)s, %(key)s, %(digest)s,
    1, 'queued', 1, %(stream)s, 1, 1, 0, 0, 0, 0, 0, 0, '', false, 0, 0, %(policy)s, %(grace)s::float8, 0, now,
    least(now + %(deadline)s * interval '1 second', %(until)s::timestamptz),
    now + (%(grace)s::float8 + %(connect)s) * interval '1 second',
    %(budget)s::int8, %(parent)s::uuid, %(step)s::uuid, %(root)s::uuid,
    %(conversation)s::uuid, %(turn)s::int4, %(history)s::jsonb
  from (select clock_timestamp() as now) clock
  on conflict (created_by_id, tenant_id, idempotency_key) where idempotency_key is not null do nothing
  returning *
), attempt as (
  insert into runs_attempt (stream_id, run_id, number, created_at) select stream_id, id, 1, created_at from made
), event as (
  insert into runs_event (stream_id, seq, type, data)
  select stream_id, 1, 'run.created',
    %(before_ts)s || to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || %(after_ts)s from made
  returning data as event
), wish as (
  insert into runs_outboxrow (run_id, kind, due_at, created_at)
  select id, 'advance', clock_timestamp() + interval '1 second', created_at from made
), talk as (
  insert into runs_conversation (id, tenant_id, created_by_id, turns, created_at)
  select conversation_id, tenant_id, created_by_id, 1, created_at from made where %(opens)s
)
select made.*, event.event from made, event"""
_SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def create(
    new: NewRun,
    parentage: Parentage | None = None,
    *,
    conversation_id: UUID | None = None,
    turn: int | None = None,
    history: Any = None,
) -> Decision[Row | None]:
    """Store a queued run with its attempt, its first event and the wish for a worker.

    Args: conversation_id: of a new conversation that begins with this run; with `turn`, of one that is there and
    locked; history: what was said there before.

    Returns all columns of its row. None: the caller used this idempotency key before; nothing was stored.
    A run whose policy is a grace starts its clock here, with 30 s for the page to appear (RULES H17).
    """
    run_id = new_id() if parentage is None else id_after(parentage.parent_id)
    origin = Origin(run_id, 1, new_id())
    data = {"agent": new.agent, "title": new.title, "input": new.input}
    if parentage is not None:
        data["parent_id"] = text_id("run", parentage.parent_id)
    sample = draft(origin, "run.created", data, at=_SOME_TIME).text
    before_ts, _, after_ts = sample.partition(write_time(_SOME_TIME))  # the frame's own ts stands before its data
    rows = yield Query(
        INSERT,
        {"id": origin.run_id, "tenant": new.tenant_id, "user": new.user_id, "agent": new.agent, "title": new.title,
         "input": jsonb(new.input), "metadata": jsonb(new.metadata), "key": new.idempotency_key,
         "digest": new.idempotency_digest, "stream": origin.stream_id, "policy": new.on_disconnect,
         "grace": new.grace_seconds, "connect": limits().connect_grace_seconds, "deadline": new.deadline_seconds,
         "conversation": conversation_id, "turn": 1 if conversation_id and turn is None else turn,
         "history": jsonb(history), "opens": conversation_id is not None and turn is None,
         "before_ts": before_ts, "after_ts": after_ts, "budget": new.budget_tokens,
         "until": None if parentage is None else parentage.until,
         "parent": None if parentage is None else parentage.parent_id,
         "step": None if parentage is None else parentage.step_id,
         "root": None if parentage is None else parentage.root_id},
    )  # fmt: skip
    if not rows:
        return None
    run = rows[0]
    event = run.pop("event")
    yield Advance(run["id"])
    yield Bell(*bell(run["stream_id"], 1, [event]))
    yield Bell(*tenant_bell(run["tenant_id"], run["id"], run["version"]))
    return run
