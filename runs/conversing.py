"""The commands of a conversation: send its next message, or take one back that still waits."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from runs import selectors
from runs.access import Actor
from runs.creating import Created, check_new_run
from runs.database import decide
from runs.decisions import conversations
from runs.errors import AlreadyStarted, Busy, ConversationBusy, IdempotencyMismatch, InvalidInput, NotFound
from runs.ids import text_id
from runs.models import NextMessage, Run
from runs.states import OnBusy

MOST_TRIES = 5  # an interrupt that finds another active run than it looked for looks again


@dataclass(frozen=True, slots=True)
class Waiting:
    """The message waits as a row; `is_new` is false when the same key had sent it before."""

    message: NextMessage
    is_new: bool


def send_message(
    *,
    actor: Actor,
    conversation_id: UUID,
    agent: str,
    input: dict[str, Any],
    on_busy: str = OnBusy.REJECT.value,
    title: str | None = None,
    deadline_seconds: float | None = None,
    on_disconnect: Any = None,
    metadata: dict[str, Any] | None = None,
    budget_tokens: int | None = None,
    idempotency_key: str | None = None,
) -> Created | Waiting:
    """Send the next message: a run at once where the conversation is free, else what `on_busy` says.

    Args: on_busy: "reject", "enqueue" or "interrupt"; the deadline counts from the start of its run.
    Raises: NotFound, NotAllowed, InvalidInput, ConversationBusy, IdempotencyMismatch, Busy.
    """
    conversation = selectors.get_conversation(actor, conversation_id)
    actor.require("conversation.continue", conversation)
    wish = _check_on_busy(on_busy)
    if wish is OnBusy.INTERRUPT:
        actor.require("run.stop", conversation)
    spec, new = check_new_run(
        actor=actor, agent=agent, input=input, title=title, deadline_seconds=deadline_seconds,
        on_disconnect=on_disconnect, metadata=metadata, budget_tokens=budget_tokens, idempotency_key=idempotency_key,
        also={"conversation": conversation_id.hex, "on_busy": on_busy},
    )  # fmt: skip
    if not spec.converses:
        raise InvalidInput("agent", _("This agent takes no part in conversations; start a run of its own."))
    for _try in range(MOST_TRIES):
        sent = decide(conversations.send(conversation_id=conversation_id, new=new, on_busy=wish))
        if isinstance(sent, conversations.Started):
            run = Run.objects.select_related("created_by", "cancel_by").get(pk=sent.run_id)
            return Created(run, sent.is_new)
        if isinstance(sent, conversations.Waits):
            return Waiting(NextMessage.objects.get(pk=sent.message_id), sent.is_new)
        if sent.reason != "moved":
            raise _refusal(sent)
    raise Busy


def _check_on_busy(text: str) -> OnBusy:
    try:
        return OnBusy(text)
    except ValueError:
        raise InvalidInput("on_busy", _("Say reject, enqueue or interrupt.")) from None


def _refusal(refused: conversations.NotSent) -> Exception:
    if refused.reason == "missing":
        return NotFound("conversation")
    if refused.reason == "mismatch":
        return IdempotencyMismatch()
    assert refused.run_id is not None  # what is busy has a name
    return ConversationBusy(text_id("run", refused.run_id), in_doubt=refused.reason == "in_doubt")


def withdraw_message(*, actor: Actor, conversation_id: UUID, message_id: UUID) -> NextMessage:
    """Take back a message that still waits. Repeated, it changes nothing.

    Raises: NotFound, NotAllowed, AlreadyStarted.
    """
    conversation = selectors.get_conversation(actor, conversation_id)
    actor.require("conversation.continue", conversation)
    message = NextMessage.objects.filter(pk=message_id, conversation=conversation).first()
    if message is None:
        raise NotFound("message")
    decide(conversations.withdraw(message_id=message_id))
    message.refresh_from_db()
    if message.run_id is not None:
        raise AlreadyStarted(text_id("run", message.run_id))
    return message
