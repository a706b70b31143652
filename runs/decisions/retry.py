"""Trying a settled run once more, because a person asked for it: a new attempt with its provenance (RULES H13).

The stream of the attempt before stays as it is. What was committed outside is never done again by itself: a call with
the tool and arguments of a committed operation gets its receipt. "Do it again" names the operation, and gives its
call a new key, `…#redo-n`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import RUN_COLUMNS, Decision, Fact, Query, Row, ask_for_worker, jsonb, lock_run, record
from runs.decisions.lineage import base_of, is_committed
from runs.decisions.turns import BUSY, lock_conversation
from runs.ids import new_id, text_id
from runs.states import SETTLED, Reuse, Status


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person who asks decides. redo: operations to do again; version: of the run as they read it."""

    run_id: UUID
    user_id: int
    user_name: str
    reason: str = ""
    reuse: Reuse = Reuse.FINISHED
    redo: Sequence[UUID] = ()
    deadline_seconds: float | None = None  # None: as long as the attempt before
    version: int | None = None
    idempotency_key: str | None = None
    idempotency_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Retried:
    """The run is queued as this attempt; `is_new` is false when the same key had made it before."""

    number: int
    stream_id: UUID
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class NotRetried:
    """missing | child (retry its parent) | not_settled | stale | contradicted | not_committed (redo names such) |
    mismatch (of the key) | busy.

    busy: another run of the conversation (`run_id`) is active or in doubt.
    """

    reason: str
    operation_ids: list[UUID] = field(default_factory=list)
    run_id: UUID | None = None


# The fence goes on growing: a worker of the attempt before must never hold the number of a new claim (RULES H1).
RETRY = f"""
with old as (
  select deadline_at - a.created_at as span from runs_run r join runs_attempt a on a.stream_id = r.stream_id
  where r.id = %(run)s
)
update runs_run set attempt = attempt + 1, stream_id = %(stream)s, last_seq = 0, floor_seq = 1, fence = fence + 1,
  status = 'queued', last_batch = 0, last_batch_seq = 0, open_ops = 0, unknown_ops = 0, wakes = 0, waiting_for = null,
  wake_at = null, started_at = null, terminal_at = null, cancel_id = null, cancel_requested_at = null,
  cancel_reason = null, cancel_by_id = null, cancel_note = '', cancel_seen_at = null, cancel_seen_by = null,
  cancel_seen_fence = null, cancel_effects = null, stop_deadline_at = null, has_result = false, result = null,
  deaths = 0, error_code = null, error_message = null, control_count = 0,
  deadline_at = clock_timestamp() + coalesce(%(deadline)s * interval '1 second', old.span),
  grace_expires_at = clock_timestamp() + (grace_seconds + %(connect)s) * interval '1 second'
from old where id = %(run)s and status in ('cancelled', 'completed', 'failed')
returning {RUN_COLUMNS}, title, input, clock_timestamp() as now"""


def retry(wish: Wish, *, with_parent: bool = False) -> Decision[Retried | NotRetried]:
    """Queue a settled run as a new attempt. Args: with_parent: a child, by its parent's own new attempt.

    Races: of two that ask at once the second gets not_settled; a receipt that contradicts a decision and is stored
    before this commit bars the retry, one that comes later bars the call itself (`lineage.may_dispatch`).
    """
    run = yield from lock_run(wish.run_id)
    if run is None:
        return NotRetried("missing")
    if (before := (yield from _made_before(wish))) is not None:
        return before
    if run["parent_id"] is not None and not with_parent:
        return NotRetried("child")
    if run["status"] not in SETTLED:
        return NotRetried("not_settled")
    if wish.version not in (None, run["version"]):
        return NotRetried("stale")
    if run["conversation_id"] is not None:
        yield from lock_conversation(run["conversation_id"])
        if busy := (yield Query(BUSY, {"conversation": run["conversation_id"]})):
            return NotRetried("busy", run_id=busy[0]["id"])
    operations = yield Query(OPERATIONS, {"run": run["id"]})
    if doubtful := [o["id"] for o in operations if o["contradicted_at"] is not None]:
        return NotRetried("contradicted", doubtful)
    redo = set(wish.redo)
    if undone := redo - {o["id"] for o in operations if is_committed(o)}:
        return NotRetried("not_committed", sorted(undone))
    return (yield from _begin(run, wish, choose_keys(operations, redo), [o for o in operations if o["id"] in redo]))


OPERATIONS = """
select id, key, tool, state, receipt, is_process, contradicted_at from runs_operation where run_id = %(run)s
order by key, created_at"""


def _made_before(wish: Wish) -> Decision[Retried | NotRetried | None]:
    if wish.idempotency_key is None:
        return None
    rows = yield Query(
        """select number, stream_id, idempotency_digest from runs_attempt
           where run_id = %(run)s and created_by_id = %(by)s and idempotency_key = %(key)s""",
        {"run": wish.run_id, "by": wish.user_id, "key": wish.idempotency_key},
    )
    if not rows:
        return None
    if rows[0]["idempotency_digest"] != wish.idempotency_digest:
        return NotRetried("mismatch")
    return Retried(rows[0]["number"], rows[0]["stream_id"], is_new=False)


def choose_keys(operations: Sequence[Row], redo: set[UUID]) -> dict[str, str]:
    """Say which calls of the new attempt use another key than their own: those that were, or are to be, done again.

    Of a call that was done again before, the newest committed operation counts; where none is, the newest one.
    """
    keys: dict[str, str] = {}
    for base, group in groupby(sorted(operations, key=_place), key=lambda o: base_of(o["key"])):
        tries = list(group)
        committed = [o for o in tries if is_committed(o)]
        key = (committed or tries)[-1]["key"]
        if any(o["id"] in redo for o in tries):
            key = f"{base}#redo-{_place(tries[-1])[1] + 1}"
        if key != base:
            keys[base] = key
    return keys


def _place(operation: Row) -> tuple[str, int]:
    base, _, number = operation["key"].partition("#redo-")
    return base, int(number or 0)


def _begin(run: Row, wish: Wish, keys: dict[str, str], redo: list[Row]) -> Decision[Retried | NotRetried]:
    stream_id = new_id()
    rows = yield Query(
        RETRY,
        {"run": run["id"], "stream": stream_id, "deadline": wish.deadline_seconds,
         "connect": limits().connect_grace_seconds},
    )  # fmt: skip
    if not rows:
        return NotRetried("not_settled")
    fresh = rows[0]
    yield Query(
        """insert into runs_attempt (stream_id, run_id, number, created_at, retry_of_id, created_by_id, reason, reuse,
             keys, idempotency_key, idempotency_digest)
           values (%(stream)s, %(run)s, %(number)s, clock_timestamp(), %(of)s, %(by)s, %(reason)s, %(reuse)s, %(keys)s,
             %(key)s, %(digest)s)""",
        {"stream": stream_id, "run": run["id"], "number": fresh["attempt"], "of": run["stream_id"],
         "by": wish.user_id, "reason": wish.reason, "reuse": wish.reuse.value, "keys": jsonb(keys or None),
         "key": wish.idempotency_key, "digest": wish.idempotency_digest},
    )  # fmt: skip
    files = yield Query(
        """select id, name, content_type, size_bytes from runs_artifact where run_id = %(run)s order by created_at""",
        {"run": run["id"]},
    )
    yield from record(fresh, [Fact("attempt.created", _provenance(fresh, run, wish, redo, files))])
    yield from ask_for_worker(run["id"])
    return Retried(fresh["attempt"], stream_id)


def _provenance(fresh: Row, run: Row, wish: Wish, redo: list[Row], files: list[Row]) -> dict[str, Any]:
    again = [{"operation_id": text_id("op", o["id"]), "operation_key": o["key"], "tool": o["tool"]} for o in redo]
    kept = [
        {"artifact_id": text_id("art", f["id"]), "name": f["name"], "content_type": f["content_type"],
         "bytes": f["size_bytes"]}
        for f in files
    ]  # fmt: skip
    return {
        "retry_of": run["attempt"], "ended": Status(run["status"]).value, "reason": wish.reason, "by": wish.user_name,
        "reuse": wish.reuse.value, "redo": again, "agent": fresh["agent"], "title": fresh["title"],
        "input": fresh["input"], "artifacts": kept,
        "parent_id": None if fresh["parent_id"] is None else text_id("run", fresh["parent_id"]),
    }  # fmt: skip
