"""The turns of a conversation: what was said before a run, and which message becomes the next run.

Lock order: run, conversation. Whoever ends a run holds its row, and then looks here for what follows; whoever sends a
message locks the conversation and looks for an active run. So of an end and a message one sees the other.
"""

from typing import Any
from uuid import UUID

from runs.conversation_history import write_history
from runs.decisions.core import Decision, Query, Row
from runs.decisions.creation import NewRun, create

MAX_TURNS = 40  # of the history; what is older is not told to the model

# Active, or in doubt: a message waits for both.
BUSY = """
select id, status from runs_run where conversation_id = %(conversation)s
  and status not in ('cancelled', 'completed', 'failed') order by turn desc limit 1"""
NEXT = """
select * from runs_nextmessage where conversation_id = %(conversation)s and run_id is null and withdrawn_at is null
order by created_at, id limit 1 for no key update"""
TURNS = """
select id, stream_id, status, error_code, input from runs_run where conversation_id = %(conversation)s
order by turn desc limit %(limit)s"""
SAID = """
select s.stream_id, s.path, s.kind, s.name, s.arguments, s.state, s.result, s.error,
  o.state as operation_state, o.receipt, o.is_process
from runs_step s left join runs_operation o on o.step_id = s.id
where s.stream_id = any(%(streams)s) and s.kind in ('model', 'text', 'tool')"""


def start_next(run: Row) -> Decision[UUID | None]:
    """Let the message that waits longest become a run, once the conversation of an ended run is free.

    The caller holds the run's row and has ended or reconciled it in this transaction. Returns the new run's id.

    The key of the message stays with the message, by which it is found (conversations.BY_KEY). A run of its own may
    have been made with the same key meanwhile, and nothing may keep this end from being written.
    """
    conversation_id = run["conversation_id"]
    if conversation_id is None:
        return None
    yield from lock_conversation(conversation_id)
    if (yield Query(BUSY, {"conversation": conversation_id})):
        return None
    rows = yield Query(NEXT, {"conversation": conversation_id})
    if not rows:
        return None
    waiting = rows[0]
    names = (
        "tenant_id", "agent", "title", "input", "metadata", "deadline_seconds", "on_disconnect", "grace_seconds",
        "budget_tokens",
    )  # fmt: skip
    new = NewRun(
        **{name: waiting[name] for name in names}, user_id=waiting["created_by_id"],
        idempotency_key=None, idempotency_digest=None,
    )  # fmt: skip
    started = yield from add_turn(conversation_id, new)
    assert started is not None  # it has no key that could be taken
    yield Query(
        "update runs_nextmessage set run_id = %(run)s where id = %(id)s", {"run": started["id"], "id": waiting["id"]}
    )
    started_id: UUID = started["id"]
    return started_id


def lock_conversation(conversation_id: UUID) -> Decision[Row | None]:
    """Lock a conversation's row; None when there is no such one."""
    rows = yield Query("select * from runs_conversation where id = %(id)s for no key update", {"id": conversation_id})
    return rows[0] if rows else None


def add_turn(conversation_id: UUID, new: NewRun) -> Decision[Row | None]:
    """Make a run the next turn of a conversation that the caller has locked and found free.

    None, and nothing is changed: its key was used elsewhere meanwhile.
    """
    history = yield from _read_history(conversation_id)
    rows = yield Query(
        "update runs_conversation set turns = turns + 1 where id = %(id)s returning turns", {"id": conversation_id}
    )
    row = yield from create(new, conversation_id=conversation_id, turn=rows[0]["turns"], history=history)
    if row is None:
        yield Query("update runs_conversation set turns = turns - 1 where id = %(id)s", {"id": conversation_id})
    return row


def _read_history(conversation_id: UUID) -> Decision[list[dict[str, Any]]]:
    turns = yield Query(TURNS, {"conversation": conversation_id, "limit": MAX_TURNS})
    said = yield Query(SAID, {"streams": [turn["stream_id"] for turn in turns]})
    return write_history(turns[::-1], said)
