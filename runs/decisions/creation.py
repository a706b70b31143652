"""Creating a run: its row, its first attempt, its first event and the outbox row, in one transaction."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import RUN_COLUMNS, Decision, Fact, Query, Row, ask_for_worker, jsonb, record
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


INSERT = f"""
insert into runs_run (id, tenant_id, created_by_id, agent, title, input, metadata, idempotency_key,
  idempotency_digest, version, status, attempt, stream_id, last_seq, floor_seq, fence, last_batch, last_batch_seq,
  open_ops, unknown_ops, wakes, cancel_note, has_result, input_tokens, output_tokens, on_disconnect, grace_seconds,
  control_count, created_at, deadline_at, grace_expires_at)
values (%(id)s, %(tenant)s, %(user)s, %(agent)s, %(title)s, %(input)s, %(metadata)s, %(key)s, %(digest)s,
  0, 'queued', 1, %(stream)s, 0, 1, 0, 0, 0, 0, 0, 0, '', false, 0, 0, %(policy)s, %(grace)s, 0, clock_timestamp(),
  clock_timestamp() + %(deadline)s * interval '1 second',
  clock_timestamp() + (%(grace)s::float8 + %(connect)s) * interval '1 second')
on conflict (created_by_id, tenant_id, idempotency_key) where idempotency_key is not null do nothing
returning {RUN_COLUMNS}, clock_timestamp() as now"""


def create(new: NewRun) -> Decision[Row | None]:
    """Store a queued run. None: the caller used this idempotency key before; nothing was stored.

    A run whose policy is a grace starts its clock here, with 30 s for the page to appear (RULES H17).
    """
    rows = yield Query(
        INSERT,
        {"id": new_id(), "tenant": new.tenant_id, "user": new.user_id, "agent": new.agent, "title": new.title,
         "input": jsonb(new.input), "metadata": jsonb(new.metadata), "key": new.idempotency_key,
         "digest": new.idempotency_digest, "stream": new_id(), "policy": new.on_disconnect,
         "grace": new.grace_seconds, "connect": limits().connect_grace_seconds, "deadline": new.deadline_seconds},
    )  # fmt: skip
    if not rows:
        return None
    run = rows[0]
    yield Query(
        """insert into runs_attempt (stream_id, run_id, number, created_at)
           values (%(stream)s, %(run)s, 1, clock_timestamp())""",
        {"stream": run["stream_id"], "run": run["id"]},
    )
    yield from record(run, [Fact("run.created", {"agent": new.agent, "title": new.title, "input": new.input})])
    yield from ask_for_worker(run["id"])
    return run
