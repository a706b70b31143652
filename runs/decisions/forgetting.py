"""Deleting runs that ended long ago, with all that runs below them. A run with a row in the ledger is never deleted."""

from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Query
from runs.decisions.turns import lock_conversation
from runs.states import SETTLED

_SETTLED = ", ".join(f"'{status}'" for status in sorted(SETTLED))
_KEPT = f"""(t.status not in ({_SETTLED}) or t.is_held
  or t.terminal_at > clock_timestamp() - %(days)s * interval '1 day'
  or exists (select 1 from runs_operation o where o.run_id = t.id))"""
# A whole tree, and of a conversation only with all its runs: what was said before is read for each next turn.
MAY_FORGET = f"""r.parent_id is null and r.status in ({_SETTLED})
  and r.terminal_at <= clock_timestamp() - %(days)s * interval '1 day'
  and not exists (select 1 from runs_run t where (t.id = r.id or t.root_id = r.id) and {_KEPT})
  and not exists (select 1 from runs_run t join runs_run s on t.id = s.id or t.root_id = s.id
                  where s.conversation_id = r.conversation_id and {_KEPT})
  and not exists (select 1 from runs_nextmessage m
                  where m.conversation_id = r.conversation_id and m.run_id is null and m.withdrawn_at is null)"""

_OF_STREAMS = "stream_id in (select stream_id from runs_attempt where run_id = any(%(runs)s))"
_DELETE = [
    *(f"delete from {table} where {_OF_STREAMS}" for table in ("runs_event", "runs_checkpoint")),
    *(
        f"delete from {table} where run_id = any(%(runs)s)"
        for table in (
            "runs_outboxrow", "runs_controlconnection", "runs_artifact", "runs_question", "runs_step", "runs_attempt",
            "runs_nextmessage", "runs_shell", "runs_shellviewer",
        )
    ),
    "delete from runs_run where id = any(%(runs)s)",
]  # fmt: skip
# All that go together, by id as everybody locks them.
LOCK = """
select t.id, t.conversation_id from runs_run t join runs_run s on t.id = s.id or t.root_id = s.id
where s.id = %(run)s or s.conversation_id = (select conversation_id from runs_run where id = %(run)s)
order by t.id for update of t"""
_LEFT = "select 1 from runs_run where conversation_id = %(conversation)s"
_DELETE_CONVERSATION = [
    f"delete from runs_nextmessage where conversation_id = %(conversation)s and not exists ({_LEFT})",
    f"delete from runs_conversation where id = %(conversation)s and not exists ({_LEFT})",
]


def forget(*, run_id: UUID, days: float) -> Decision[int]:
    """Delete a root run and all below it, and with it its conversation, if nothing of these is younger or needed.

    Races: a retry, or a new turn of its conversation, came first: 0. Returns how many runs were deleted.
    """
    locked = yield Query(LOCK, {"run": run_id})
    conversations = {row["conversation_id"] for row in locked} - {None}
    for conversation_id in conversations:  # one at most: children have none
        yield from lock_conversation(conversation_id)
    found = yield Query(
        f"select conversation_id from runs_run r where id = %(run)s and {MAY_FORGET}", {"run": run_id, "days": days}
    )
    if not found:
        return 0
    params: dict[str, Any] = {"runs": [row["id"] for row in locked], "conversation": found[0]["conversation_id"]}
    for sql in _DELETE + (_DELETE_CONVERSATION if params["conversation"] is not None else []):
        yield Query(sql, params)
    return len(locked)
