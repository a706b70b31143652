"""The next message of a conversation: a run at once where nothing is active, else what its sender wants.

reject     nothing is stored
enqueue    it waits as a row and becomes a run in the transaction that ends the active one, also after a stop
interrupt  the active run is asked to stop, and the message waits like that
"""

from dataclasses import dataclass
from uuid import UUID

from runs.decisions.cancels import request_cancel
from runs.decisions.core import Decision, Query, Row, jsonb, lock_run
from runs.decisions.creation import NewRun
from runs.decisions.turns import BUSY, add_turn, lock_conversation
from runs.ids import new_id
from runs.states import CANCELLABLE, CancelReason, OnBusy, Status


@dataclass(frozen=True, slots=True)
class Started:
    """The message is a run (its row). `is_new` is false when the same key had made it before."""

    run_id: UUID
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Waits:
    """The message waits as a row; see `turns.start_next`."""

    message_id: UUID
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class NotSent:
    """missing | busy (`run_id` is active) | in_doubt (its outcome is not known) | mismatch (of the key) | moved."""

    reason: str
    run_id: UUID | None = None


WAITING = """
select 1 from runs_nextmessage where conversation_id = %(conversation)s and run_id is null and withdrawn_at is null
limit 1"""
KEEP = """
insert into runs_nextmessage (id, conversation_id, tenant_id, created_by_id, agent, title, input, metadata,
  budget_tokens, deadline_seconds, on_disconnect, grace_seconds, idempotency_key, idempotency_digest, created_at)
values (%(id)s, %(conversation)s, %(tenant)s, %(user)s, %(agent)s, %(title)s, %(input)s, %(metadata)s,
  %(budget)s, %(deadline)s, %(policy)s, %(grace)s, %(key)s, %(digest)s, clock_timestamp())
on conflict (created_by_id, tenant_id, idempotency_key) where idempotency_key is not null do nothing returning id"""
BY_KEY = """
select id as run_id, null::uuid as message_id, idempotency_digest as digest from runs_run
where created_by_id = %(user)s and tenant_id = %(tenant)s and idempotency_key = %(key)s
union all
select run_id, id, idempotency_digest from runs_nextmessage
where created_by_id = %(user)s and tenant_id = %(tenant)s and idempotency_key = %(key)s"""


def send(*, conversation_id: UUID, new: NewRun, on_busy: OnBusy) -> Decision[Started | Waits | NotSent]:
    """Send the next message.

    Races: with the end of the active run, one of the two sees the other (`turns`). "moved": an interrupt found
    another active run than it had locked, or the key was used elsewhere meanwhile, and nothing was done; the caller
    sends it again.
    """
    busy = yield from _find_busy(conversation_id)
    if busy is not None and on_busy == OnBusy.INTERRUPT:
        yield from lock_run(busy["id"])  # before the conversation: the end of a run takes them in this order
    if (yield from lock_conversation(conversation_id)) is None:
        return NotSent("missing")
    if (before := (yield from _made_before(new))) is not None:
        return before
    held, busy = busy, (yield from _find_busy(conversation_id))
    if busy is None and not (yield Query(WAITING, {"conversation": conversation_id})):
        row = yield from add_turn(conversation_id, new)
        return NotSent("moved") if row is None else Started(row["id"])
    if busy is not None and on_busy == OnBusy.REJECT:
        return NotSent("in_doubt" if busy["status"] == Status.NEEDS_RECONCILIATION else "busy", busy["id"])
    if on_busy == OnBusy.INTERRUPT and busy is not None and (held is None or held["id"] != busy["id"]):
        return NotSent("moved")
    message_id = yield from _keep(conversation_id, new)
    if message_id is None:
        return NotSent("moved")  # its key was used elsewhere meanwhile
    if on_busy == OnBusy.INTERRUPT and busy is not None and busy["status"] in CANCELLABLE:
        yield from request_cancel(run_id=busy["id"], reason=CancelReason.USER, by=new.user_id, note="")
        rows = yield Query("select run_id from runs_nextmessage where id = %(id)s", {"id": message_id})
        if rows[0]["run_id"] is not None:  # nothing was under way, so that run has ended and this one begins
            return Started(rows[0]["run_id"])
    return Waits(message_id)


def withdraw(*, message_id: UUID) -> Decision[bool]:
    """Take a waiting message back. False: it has become a run, or was taken back before."""
    rows = yield Query("select conversation_id from runs_nextmessage where id = %(id)s", {"id": message_id})
    if not rows or (yield from lock_conversation(rows[0]["conversation_id"])) is None:
        return False
    rows = yield Query(
        """update runs_nextmessage set withdrawn_at = clock_timestamp()
           where id = %(id)s and run_id is null and withdrawn_at is null returning id""",
        {"id": message_id},
    )
    return bool(rows)


def _find_busy(conversation_id: UUID) -> Decision[Row | None]:
    rows = yield Query(BUSY, {"conversation": conversation_id})
    return rows[0] if rows else None


def _made_before(new: NewRun) -> Decision[Started | Waits | NotSent | None]:
    if new.idempotency_key is None:
        return None
    rows = yield Query(BY_KEY, {"user": new.user_id, "tenant": new.tenant_id, "key": new.idempotency_key})
    if not rows:
        return None
    first = rows[0]
    if first["digest"] != new.idempotency_digest:
        return NotSent("mismatch")
    if first["run_id"] is not None:
        return Started(first["run_id"], is_new=False)
    return Waits(first["message_id"], is_new=False)


def _keep(conversation_id: UUID, new: NewRun) -> Decision[UUID | None]:
    rows = yield Query(
        KEEP,
        {"id": new_id(), "conversation": conversation_id, "tenant": new.tenant_id, "user": new.user_id,
         "agent": new.agent, "title": new.title, "input": jsonb(new.input), "metadata": jsonb(new.metadata),
         "budget": new.budget_tokens, "deadline": new.deadline_seconds, "policy": new.on_disconnect,
         "grace": new.grace_seconds, "key": new.idempotency_key, "digest": new.idempotency_digest},
    )  # fmt: skip
    return rows[0]["id"] if rows else None
