"""The command that tries a settled run once more (see runs.decisions.retry)."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from runs import selectors
from runs.access import Actor, display_name
from runs.auditing import audit
from runs.creating import SHELL
from runs.database import decide
from runs.decisions.retry import NotRetried, Retried, Wish, retry
from runs.errors import ConversationBusy, IdempotencyMismatch, InvalidInput, NotFound, NotRetriable, StaleVersion
from runs.ids import text_id
from runs.inputs import check_seconds, check_text
from runs.models import Attempt, Operation, Run
from runs.states import Reuse, Status

MAX_REASON = 1000
MAX_REDO = 100


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """The run and its attempt; `is_new` is false when the idempotency key brought it back."""

    run: Run
    attempt: Attempt
    is_new: bool


def retry_run(
    *,
    actor: Actor,
    run_id: UUID,
    reason: str = "",
    reuse: str = Reuse.FINISHED.value,
    redo: Sequence[UUID] = (),
    deadline_seconds: float | None = None,
    version: int | None = None,
    idempotency_key: str | None = None,
) -> NewAttempt:
    """Queue a settled run as a new attempt. With a key that this actor used before, the same body changes nothing.

    Args: reuse: "finished" (go on before the first step that did not finish) or "nothing"; redo: committed operations
    to do again, each under a new key; deadline_seconds: None is as long as the attempt before; version: of the run as
    the caller read it.
    Raises: NotFound, NotAllowed, InvalidInput, NotRetriable, StaleVersion, IdempotencyMismatch, ConversationBusy.
    """
    run = selectors.get_run(actor, run_id)
    actor.require("run.retry", run)
    if run.agent == SHELL:
        raise NotRetriable("shell", [])
    if redo:
        actor.require("operation.redo", run)
    wish = Wish(
        run_id=run_id, user_id=actor.user.pk, user_name=display_name(actor.user),
        reason=check_text("reason", reason, most=MAX_REASON), reuse=_check_reuse(reuse), redo=_check_redo(redo),
        deadline_seconds=None if deadline_seconds is None else check_seconds("deadline_s", deadline_seconds, default=0),
        version=version, idempotency_key=idempotency_key,
        idempotency_digest=_digest(reason, reuse, redo, deadline_seconds) if idempotency_key else None,
    )  # fmt: skip
    with transaction.atomic():  # nothing is done again without its line in the audit
        made = decide(retry(wish))
        if isinstance(made, Retried) and made.is_new:
            _audit(actor, run, made, wish)
    if isinstance(made, NotRetried):
        raise _refusal(made, run_id)
    attempt = Attempt.objects.select_related("created_by", "retry_of").get(pk=made.stream_id)
    return NewAttempt(selectors.get_run(actor, run_id), attempt, made.is_new)


def _check_reuse(reuse: str) -> Reuse:
    try:
        return Reuse(reuse)
    except ValueError:
        raise InvalidInput("reuse", _("Say finished or nothing.")) from None


def _check_redo(redo: Sequence[UUID]) -> tuple[UUID, ...]:
    if len(redo) > MAX_REDO:
        raise InvalidInput("redo", _("At most %(n)s operations can be done again at once.") % {"n": MAX_REDO})
    return tuple(dict.fromkeys(redo))


def _digest(reason: str, reuse: str, redo: Sequence[UUID], deadline_seconds: float | None) -> str:
    body = [reason, reuse, sorted(one.hex for one in redo), deadline_seconds]
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def _refusal(refused: NotRetried, run_id: UUID) -> Exception:
    ids = [text_id("op", one) for one in refused.operation_ids]
    if refused.reason == "missing":
        return NotFound("run")
    if refused.reason == "mismatch":
        return IdempotencyMismatch()
    if refused.reason == "stale":
        return StaleVersion()
    if refused.reason == "not_committed":
        named = _("Only what took effect can be done again; this has not, or is not of this run: %(ids)s.")
        return InvalidInput("redo", named % {"ids": ", ".join(ids)})
    if refused.reason == "busy":
        assert refused.run_id is not None  # what is busy has a name
        busy = Run.objects.filter(pk=refused.run_id, status=Status.NEEDS_RECONCILIATION)
        return ConversationBusy(text_id("run", refused.run_id), in_doubt=busy.exists())
    if refused.reason == "not_settled":
        if Run.objects.filter(pk=run_id, status=Status.NEEDS_RECONCILIATION).exists():
            doubtful = Operation.objects.filter(run=run_id, state="unknown").order_by("created_at")
            return NotRetriable("in_doubt", [text_id("op", one.pk) for one in doubtful])
    return NotRetriable(refused.reason, ids)


def _audit(actor: Actor, run: Run, made: Retried, wish: Wish) -> None:
    """Note every retry of a run of somebody else, and everything that is done again, whoever asked."""
    subject = text_id("run", run.pk)
    detail = {"attempt": made.number, "reason": wish.reason, "reuse": wish.reuse.value}
    lines = [("operation.redo", text_id("op", one), detail | {"run_id": subject}) for one in wish.redo]
    if run.created_by_id != actor.user.pk:
        lines.insert(0, ("run.retry", subject, detail))
    for action, named, more in lines:
        audit(actor, action, named, more)
