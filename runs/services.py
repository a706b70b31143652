"""The commands: create, cancel, answer, settle, and the presence of a client.

Each is one transaction, may be repeated without harm, and is called alike by the API, the pages, the admin,
the CLI's server side and the sockets. What must follow a commit is an outbox row or a bell of that commit.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from runs import selectors
from runs.access import Actor, display_name
from runs.agents.registry import get_agent
from runs.conf import limits
from runs.database import decide
from runs.decisions import cancels, controls, creation, operations, waiting
from runs.errors import IdempotencyMismatch, InvalidInput, NotFound, NotYet, StaleVersion, TooLate
from runs.inputs import check_answer, check_metadata, check_policy, check_seconds, check_title
from runs.models import AuditEntry, Operation, Question, Run
from runs.states import CancelReason
from tools.plain_json import clean_text


@dataclass(frozen=True, slots=True)
class Created:
    """The run; `is_new` is false when the idempotency key brought back the run it had made before."""

    run: Run
    is_new: bool


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
    idempotency_key: str | None = None,
) -> Created:
    """Start a run. With a key that this actor used before, the same body brings back the same run.

    Args: on_disconnect: "continue", "cancel" or {"grace_s": n}; None takes the agent's own policy.
    Raises: NotAllowed, UnknownAgent, InvalidInput (naming the field), IdempotencyMismatch.
    """
    actor.require("run.create")
    spec = get_agent(agent)
    checked = spec.normal_input(input)
    policy, grace = check_policy(spec.on_disconnect if on_disconnect is None else on_disconnect)
    seconds = check_seconds("deadline_s", deadline_seconds, default=spec.deadline_seconds or _default_deadline())
    body = {"agent": agent, "input": checked, "title": title, "deadline_s": deadline_seconds,
            "on_disconnect": on_disconnect, "metadata": metadata}  # fmt: skip
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    row = decide(
        creation.create(
            creation.NewRun(
                tenant_id=actor.tenant.pk, user_id=actor.user.pk, agent=spec.name,
                title=check_title(title, checked, spec.name), input=checked, metadata=check_metadata(metadata),
                deadline_seconds=seconds, on_disconnect=policy, grace_seconds=grace,
                idempotency_key=idempotency_key, idempotency_digest=digest if idempotency_key else None,
            )
        )
    )  # fmt: skip
    if row is not None:
        names = [field.attname for field in Run._meta.concrete_fields]
        made = Run.from_db("default", names, [row[name] for name in names])
        made.created_by = actor.user
        return Created(made, True)
    first = Run.objects.select_related("created_by").get(
        created_by=actor.user, tenant=actor.tenant, idempotency_key=idempotency_key
    )
    if first.idempotency_digest != digest:
        raise IdempotencyMismatch
    return Created(first, False)


def _default_deadline() -> float:
    return limits().default_deadline_seconds


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
        _audit(actor, "run.stop", f"run_{run_id.hex}", {"note": text, "reason": reason.value})
    return CancelReceipt(selectors.get_run(actor, run_id), answer.is_first, answer.too_late, answer.effects)


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


def settle_operation(
    *, actor: Actor, operation_id: UUID, version: int, outcome: str, note: str, override: bool = False
) -> Operation:
    """Decide an unknown operation by an operator's word, on record.

    Args: outcome: "happened" | "not_happened"; version: as the operator read it; override: "did not happen" is
    said although nobody saw the end of the process that sent it.
    Raises: NotFound, NotAllowed, InvalidInput, StaleVersion, NotYet (before the horizon, or without proof).
    """
    actor.require("operation.settle")
    if not Operation.objects.filter(pk=operation_id, run__tenant=actor.tenant).exists():
        raise NotFound("operation")
    if outcome not in ("happened", "not_happened"):
        raise InvalidInput("outcome", _("Say happened or not_happened."))
    text = clean_text(note).strip()[:4000]
    if not text:
        raise InvalidInput("note", _("Write down how you know; the note stays with the operation."))
    verdict = decide(
        operations.settle(
            operation_id=operation_id, version=version, happened=outcome == "happened", source="verdict",
            detail={"proof": "verdict"}, by=actor.user.pk, by_name=display_name(actor.user), note=text,
            override=override,
        )
    )  # fmt: skip
    if isinstance(verdict, operations.NotSettled):
        if verdict.reason == "not_yet":
            raise NotYet(verdict.horizon_at, verdict.holder_gone)
        if verdict.reason == "missing":
            raise NotFound("operation")
        raise StaleVersion
    _audit(
        actor, "operation.settle", f"op_{operation_id.hex}", {"outcome": outcome, "note": text, "override": override}
    )
    return Operation.objects.select_related("run").get(pk=operation_id)


def _audit(actor: Actor, action: str, subject: str, detail: dict[str, Any]) -> None:
    AuditEntry.objects.create(tenant=actor.tenant, user=actor.user, action=action, subject=subject, detail=detail)


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
