"""Creating a run: its row, its first attempt, its first event and the outbox row, in one transaction."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import Advance, Bell, Decision, Query, Row, jsonb
from runs.frames import Origin, bell, draft, tenant_bell, write_time
from runs.ids import new_id


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


# One statement, since nobody else knows the run yet: six round trips less before a worker can be asked.
INSERT = """
with made as (
  insert into runs_run (id, tenant_id, created_by_id, agent, title, input, metadata, idempotency_key,
    idempotency_digest, version, status, attempt, stream_id, last_seq, floor_seq, fence, last_batch, last_batch_seq,
    open_ops, unknown_ops, wakes, cancel_note, has_result, input_tokens, output_tokens, on_disconnect, grace_seconds,
    control_count, created_at, deadline_at, grace_expires_at)
  select %(id)s, %(tenant)s, %(user)s, %(agent)s, %(title)s, %(input)s, %(metadata)s, %(key)s, %(digest)s,
    1, 'queued', 1, %(stream)s, 1, 1, 0, 0, 0, 0, 0, 0, '', false, 0, 0, %(policy)s, %(grace)s::float8, 0, now,
    now + %(deadline)s * interval '1 second', now + (%(grace)s::float8 + %(connect)s) * interval '1 second'
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
)
select made.*, event.event from made, event"""
_SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def create(new: NewRun) -> Decision[Row | None]:
    """Store a queued run with its attempt, its first event and the wish for a worker.

    Returns all columns of its row. None: the caller used this idempotency key before; nothing was stored.
    A run whose policy is a grace starts its clock here, with 30 s for the page to appear (RULES H17).
    """
    origin = Origin(new_id(), 1, new_id())
    data = {"agent": new.agent, "title": new.title, "input": new.input}
    sample = draft(origin, "run.created", data, at=_SOME_TIME).text
    before_ts, _, after_ts = sample.partition(write_time(_SOME_TIME))  # the frame's own ts stands before its data
    rows = yield Query(
        INSERT,
        {"id": origin.run_id, "tenant": new.tenant_id, "user": new.user_id, "agent": new.agent, "title": new.title,
         "input": jsonb(new.input), "metadata": jsonb(new.metadata), "key": new.idempotency_key,
         "digest": new.idempotency_digest, "stream": origin.stream_id, "policy": new.on_disconnect,
         "grace": new.grace_seconds, "connect": limits().connect_grace_seconds, "deadline": new.deadline_seconds,
         "before_ts": before_ts, "after_ts": after_ts},
    )  # fmt: skip
    if not rows:
        return None
    run = rows[0]
    event = run.pop("event")
    yield Advance(run["id"])
    yield Bell(*bell(run["stream_id"], 1, [event]))
    yield Bell(*tenant_bell(run["tenant_id"], run["id"], run["version"]))
    return run
