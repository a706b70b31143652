"""The commands: create, cancel, answer, retry, settle, and the presence of a client.

Each is one transaction, may be repeated without harm, and is called alike by the API, the pages, the admin,
the CLI's server side and the sockets. What must follow a commit is an outbox row or a bell of that commit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs import selectors
from runs.access import Actor, display_name
from runs.auditing import audit
from runs.conversing import Waiting, send_message, withdraw_message
from runs.creating import Created, check_new_run
from runs.database import decide
from runs.decisions import cancels, controls, creation, forcing, waiting
from runs.errors import Busy, IdempotencyMismatch, NotAllowed, NotFound, OutliveError, TooLate
from runs.ids import new_id, text_id
from runs.inputs import check_answer
from runs.models import Question, Run
from runs.reconciling import request_look_up, settle_operation
from runs.retrying import NewAttempt, retry_run
from runs.states import CancelReason
from tools.plain_json import clean_text

__all__ = [
    "CancelReceipt", "Created", "NewAttempt", "Waiting", "answer_question", "attach_control", "cancel_run",
    "cancel_runs", "create_run", "detach_control", "force_stop_run", "renew_control", "request_look_up",
    "retry_run", "send_message", "settle_operation", "withdraw_message",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CancelReceipt:
    """is_first: recorded by this call; too_late: the run had ended by itself; effects: what is known so far."""

    run: Run
    is_first: bool
    too_late: bool
    effects: list[dict[str, Any]]


def create_run(
    *,
    actor: Actor,
    agent: str,
    input: dict[str, Any],
    title: str | None = None,
    deadline_seconds: float | None = None,
    on_disconnect: Any = None,
    metadata: dict[str, Any] | None = None,
    budget_tokens: int | None = None,
    idempotency_key: str | None = None,
) -> Created:
    """Start a run. With a key that this actor used before, the same body brings back the same run.

    Args: on_disconnect: "continue", "cancel" or {"grace_s": n}; None takes the agent's own policy; budget_tokens:
    what the run and everything that it begins may spend.
    Raises: NotAllowed, UnknownAgent, InvalidInput (naming the field), IdempotencyMismatch.
    """
    spec, new = check_new_run(
        actor=actor, agent=agent, input=input, title=title, deadline_seconds=deadline_seconds,
        on_disconnect=on_disconnect, metadata=metadata, budget_tokens=budget_tokens, idempotency_key=idempotency_key,
    )  # fmt: skip
    row = decide(creation.create(new, conversation_id=new_id() if spec.converses else None))
    if row is not None:
        names = [field.attname for field in Run._meta.concrete_fields]
        made = Run.from_db("default", names, [row[name] for name in names])
        made.created_by = actor.user
        return Created(made, True)
    first = Run.objects.select_related("created_by").get(
        created_by=actor.user, tenant=actor.tenant, idempotency_key=idempotency_key
    )
    if first.idempotency_digest != new.idempotency_digest:
        raise IdempotencyMismatch
    return Created(first, False)


def cancel_run(
    *, actor: Actor, run_id: UUID, note: str = "", reason: CancelReason = CancelReason.USER
) -> CancelReceipt:
    """Ask a run to stop, and say what had begun. Asking again changes nothing; it is never refused for lateness.

    Raises: NotFound, NotAllowed.
    """
    run = selectors.get_run(actor, run_id)
    actor.require("run.stop", run)
    text = clean_text(note)[:1000]
    answer = decide(cancels.request_cancel(run_id=run_id, reason=reason, by=actor.user.pk, note=text))
    if answer is None:
        raise NotFound("run")
    if answer.is_first and run.created_by_id != actor.user.pk:
        audit(actor, "run.stop", f"run_{run_id.hex}", {"note": text, "reason": reason.value})
    return CancelReceipt(selectors.get_run(actor, run_id), answer.is_first, answer.too_late, answer.effects)


def force_stop_run(*, actor: Actor, run_id: UUID, note: str = "") -> CancelReceipt:
    """End a run now, on an operator's word and on record, without waiting for its worker or its stop deadline.

    What has no proof by now is unknown, and the run needs reconciliation. Again, or after the end, nothing changes.
    Raises: NotFound, NotAllowed.
    """
    run = selectors.get_run(actor, run_id)
    actor.require("run.force_stop", run)
    text = clean_text(note)[:1000]
    answer = decide(forcing.force_stop(run_id=run_id, by=actor.user.pk, note=text))
    if answer is None:
        raise NotFound("run")
    ended = selectors.get_run(actor, run_id)
    if answer.has_ended_it:
        audit(actor, "run.force_stop", text_id("run", run_id), {"note": text, "status": ended.status})
    return CancelReceipt(ended, answer.is_first, answer.too_late, answer.effects)


def cancel_runs(*, actor: Actor, run_ids: Iterable[UUID], note: str = "") -> dict[UUID, CancelReceipt | OutliveError]:
    """Ask several runs to stop, each in a transaction of its own: one that is refused keeps no other from stopping.

    Returns for each id its receipt, or what kept it from being recorded.
    """
    answers: dict[UUID, CancelReceipt | OutliveError] = {}
    for run_id in dict.fromkeys(run_ids):
        try:
            answers[run_id] = cancel_run(actor=actor, run_id=run_id, note=note)
        except (NotFound, NotAllowed, Busy) as refusal:
            answers[run_id] = refusal
    return answers


def answer_question(*, actor: Actor, run_id: UUID, question_id: UUID, value: Any) -> tuple[Question, bool]:
    """Answer what a run asked. Returns the question and whether this call closed it (the same answer again: no).

    Raises: NotFound, NotAllowed, InvalidInput, TooLate when another answer, the timeout or a stop was first.
    """
    run = selectors.get_run(actor, run_id)
    actor.require("run.answer", run)
    question = selectors.get_question(run, question_id)
    checked = check_answer(question.schema, value)
    closed = decide(
        waiting.answer(
            run_id=run_id, question_id=question_id, value=checked, by=actor.user.pk, by_name=display_name(actor.user)
        )
    )
    if closed is None:
        raise NotFound("question")
    if not closed.won and not (closed.state == "answered" and closed.value == checked):
        raise TooLate(closed.state, closed.value)
    question.refresh_from_db()
    return question, closed.won


def attach_control(*, actor: Actor, run_id: UUID) -> controls.Attached | None:
    """Count a connection whose loss matters. None: the run has ended or is stopping. Raises: NotFound, NotAllowed."""
    run = selectors.get_run(actor, run_id)
    actor.require("run.stop", run)
    return decide(controls.attach(run_id=run_id, user_id=actor.user.pk))


def renew_control(connection_id: UUID) -> bool:
    """Pass on a sign of life from the client; false when the connection was closed before."""
    return decide(controls.renew_presence(connection_id=connection_id))


def detach_control(connection_id: UUID) -> bool:
    """Say that the connection is closed; losing the last one starts the run's grace."""
    return decide(controls.detach(connection_id=connection_id))
