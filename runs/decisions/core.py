"""What every decision is made of: SQL that is yielded, rows that come back, and bells to ring after the commit.

A decision is a generator without I/O. It yields `Query` and is sent the rows; it yields `Bell`, `Changed` or
`Advance` for what should happen after the commit (each of these may be lost; a supervisor makes up for it).
A driver in runs/database.py runs it in one transaction. So the worker (asyncio, psycopg) and the services
(Django's connection) share each guard, and a test can stop between any two statements.

Every decision locks the run's row first (RULES H2): what it reads of other tables is read by later statements.
Lock order: runs by id (a parent's is always the smaller one), question, operation, event.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from runs import frames
from tools.plain_json import clean_json

Row = dict[str, Any]


class Query(NamedTuple):
    """One statement with named parameters.

    is_alone: as a decision's first one it may be a transaction of its own: what it decides stands, whatever follows.
    """

    sql: str
    params: Mapping[str, Any]
    is_alone: bool = False


class Bell(NamedTuple):
    """Ring this Redis channel after the commit."""

    channel: bytes
    payload: bytes


class Advance(NamedTuple):
    """Ask the queue for a worker after the commit; the outbox row stays until a claim takes it."""

    run_id: UUID


class ChildEnded(NamedTuple):
    """Let the parent of this run know of its end after the commit; the outbox row stays until it does."""

    run_id: UUID


type Effect = Bell | Advance | ChildEnded
type Decision[T] = Generator[Query | Effect, list[Row], T]

RUN_COLUMNS = """id, tenant_id, created_by_id, agent, version, status, attempt, stream_id, last_seq, fence, lease_until,
    lease_owner, open_ops, unknown_ops, wakes, waiting_for, wake_at, deadline_at, terminal_at, cancel_id,
    cancel_reason, cancel_requested_at, stop_deadline_at, has_result, on_disconnect, grace_seconds,
    grace_expires_at, control_count, open_children, deaths, parent_id, parent_step_id, root_id, told_parent,
    conversation_id"""
SEE_RUN = f"""select {RUN_COLUMNS}, clock_timestamp() as now,
    lease_until is not null and lease_until >= clock_timestamp() as has_live_lease
    from runs_run where id = %(run)s"""
LOCK_RUN = SEE_RUN + " for no key update"

# Stores the lines of `told_params` after `base` in the stream of the row that the statement calls {row}.
TOLD = """
  insert into runs_event (stream_id, seq, type, data)
  select stream_id, base + e.k, e.type, {data}
  from {row}, unnest(string_to_array(%(types)s::text, E'\\n'), string_to_array(%(texts)s::text, E'\\n'))
    with ordinality e(type, data, k)"""
RECORD = f"""
with bump as (
  update runs_run set last_seq = last_seq + %(n)s, version = version + 1 where id = %(run)s
  returning id, tenant_id, stream_id, last_seq - %(n)s as base, version
), told as ({TOLD.format(row="bump", data="e.data")}
)
select * from bump"""


@dataclass(frozen=True, slots=True)
class Fact:
    """An event that a decision is about to record."""

    type: str
    data: dict[str, Any]
    step_id: UUID | None = None


def lock_run(run_id: UUID) -> Decision[Row | None]:
    """Lock the run's row and read what guards need; None when there is no such run."""
    rows = yield Query(LOCK_RUN, {"run": run_id})
    return rows[0] if rows else None


def see_run(run_id: UUID, beside: str = "", **params: Any) -> Decision[Row | None]:
    """Read the same without a lock. What is decided by it must be written with `version` as its guard.

    Every decision adds 1 to a run's version, so at the same version everything that was read still holds. It saves
    the transaction around the usual case: the round trips of its lock, its begin and its commit.

    Args: beside: a query that gives one row with names of its own, to be read in the same round trip; params: its.
    """
    statement = f"select * from ({SEE_RUN}) run, lateral ({beside}) beside" if beside else SEE_RUN
    rows = yield Query(statement, {"run": run_id, **params}, is_alone=True)
    return rows[0] if rows else None


def alone[T](part: Decision[T]) -> Decision[T]:
    """Let each statement of a part be a transaction of its own, where no other has begun."""
    try:
        item = next(part)
        while True:
            rows = yield (item._replace(is_alone=True) if isinstance(item, Query) else item)
            item = part.send(rows)
    except StopIteration as stop:
        value: T = stop.value
        return value


def in_haste[T](part: Decision[T], seconds: float) -> Decision[T]:
    """Let no statement of a decision wait longer for a row: the driver raises Busy then, and nothing was changed.

    For who has others to look after (RULES H16). Less than a millisecond is one: zero would mean "for ever".
    """
    yield Query(f"set local lock_timeout = {max(1, int(seconds * 1000))}", {})
    return (yield from part)


def record(run: Row, facts: Sequence[Fact]) -> Decision[int]:
    """Store events in the run's current stream and ring its readers after the commit.

    `run` is a row of `lock_run` (its ids and `now` are used). Returns the seq of the first event.
    """
    drafts = write(run, facts)
    rows = yield Query(RECORD, {"run": run["id"], **told_params(drafts)})
    yield from ring(rows[0], drafts)
    base: int = rows[0]["base"]
    return base + 1


def write(run: Row, facts: Sequence[Fact]) -> list[frames.Draft]:
    """Write facts as events of the run's current stream, at the time of the row."""
    origin = frames.Origin(run["id"], run["attempt"], run["stream_id"])
    return [frames.draft(origin, f.type, f.data, at=run["now"], step_id=f.step_id) for f in facts]


def told_params(drafts: Sequence[frames.Draft]) -> dict[str, Any]:
    """Give the parameters of TOLD: one line for each event, for a frame holds no newline (runs/frames.py)."""
    texts = "\n".join([d.text for d in drafts])
    assert texts.count("\n") == len(drafts) - 1  # else events would land in rows of others
    return {"n": len(drafts), "types": "\n".join([d.type for d in drafts]), "texts": texts}


def ring(told: Row, drafts: Sequence[frames.Draft]) -> Decision[None]:
    """Ring the readers of a run after the commit. told: id, tenant_id, stream_id, base and version of its row."""
    yield Bell(*frames.bell(told["stream_id"], told["base"] + 1, [d.text for d in drafts]))
    yield Bell(*frames.tenant_bell(told["tenant_id"], told["id"], told["version"]))


def ask_for_worker(run_id: UUID) -> Decision[None]:
    """Leave an outbox row that lasts until a claim, and try the queue at once after the commit."""
    yield Query(
        """insert into runs_outboxrow (run_id, kind, due_at)
           values (%(run)s, 'advance', clock_timestamp() + interval '1 second')
           on conflict (run_id, kind) do update set due_at = excluded.due_at""",
        {"run": run_id},
    )
    yield Advance(run_id)


def tell_parent(run: Row) -> Decision[None]:
    """Leave an outbox row that lasts until the run's parent knows what became of it, and try it after the commit."""
    if run["parent_id"] is not None:
        yield Query(
            """insert into runs_outboxrow (run_id, kind, due_at) values (%(run)s, 'child', clock_timestamp())
               on conflict (run_id, kind) do update set due_at = excluded.due_at""",
            {"run": run["id"]},
        )
        yield ChildEnded(run["id"])


def tell_worker(run: Row) -> Decision[None]:
    """Ask the worker that holds a live lease to look at the row now."""
    if run["has_live_lease"]:
        yield Bell(*frames.worker_bell(run["lease_owner"], run["id"]))


def jsonb(value: Any) -> Jsonb | None:
    """Wrap a JSON value for a jsonb column, cleaned of what PostgreSQL cannot store; None stays NULL."""
    return None if value is None else Jsonb(clean_json(value))


def iso(at: datetime | None) -> str | None:
    """Write a time for an event's data."""
    return None if at is None else frames.write_time(at)
