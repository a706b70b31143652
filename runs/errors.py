"""What the domain may refuse, as one tree.

    OutliveError
      NotFound            there is no such thing, or not for this caller
      NotAllowed          the caller's role or token does not cover it
      InvalidInput        a field is wrong; `field` names it
        UnknownAgent
        TooLarge
      IdempotencyMismatch the key was used with another body
      TooLate             the question was closed before
      StaleVersion        somebody else changed it since it was read
      ConversationBusy    another run of the conversation is active or in doubt
      AlreadyStarted      a waiting message has become a run
      NotRetriable        a run cannot be tried again now; `code` says why
      HandsNotChanged     a shell cannot be taken over or handed back; `code` says why
      NotYet              an operation cannot be called "did not happen" before its horizon
      HasReceipt          an operation cannot be called "did not happen" against its receipt
      Busy                the row was locked for too long; ask again

Each has a stable English `code`, fields, and a message for people in their language that says what happened
and what to do next. HTTP is not known here; runs/api/errors.py maps each class to a status.
"""

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _


class OutliveError(Exception):
    """Something was refused. `code` is stable; `message` is for people; `details` for programs."""

    code = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class NotFound(OutliveError):
    """It does not exist, or belongs to another tenant: the caller cannot tell which."""

    code = "not_found"

    def __init__(self, kind: str) -> None:
        super().__init__(_("There is no such %(kind)s, or you may not see it.") % {"kind": kind})


class NotAllowed(OutliveError):
    """The caller may see it, but not do this."""

    code = "forbidden"

    def __init__(self, action: str) -> None:
        super().__init__(
            _("Your role does not allow this (%(action)s). Ask an admin of your workspace.") % {"action": action},
            action=action,
        )


class InvalidInput(OutliveError):
    """A field has a value that cannot be taken; nothing was done."""

    code = "invalid_input"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, field=field)
        self.field = field


class UnknownAgent(InvalidInput):
    """No agent has this name here."""

    code = "unknown_agent"

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(
            "agent",
            _("There is no agent called %(name)s. Known are: %(known)s.")
            % {"name": name[:60], "known": ", ".join(known)},
        )


class TooLarge(InvalidInput):
    """The value is larger than the limit that the message names."""

    code = "too_large"


class IdempotencyMismatch(OutliveError):
    """The same Idempotency-Key came with another body; the first run is untouched."""

    code = "idempotency_mismatch"

    def __init__(self) -> None:
        super().__init__(_("This Idempotency-Key was used with another body. Use a new key for a new run."))


class TooLate(OutliveError):
    """The question is closed; `state` says by what, `accepted` is the answer that was taken."""

    code = "too_late"

    def __init__(self, state: str, accepted: Any = None) -> None:
        super().__init__(
            _("This question is closed already (%(state)s); your answer was not used.") % {"state": state},
            state=state,
            accepted=accepted,
        )


class StaleVersion(OutliveError):
    """It was changed since the caller read it; nothing was done."""

    code = "stale_version"

    def __init__(self) -> None:
        super().__init__(_("Somebody changed this since you read it. Look at it again, then decide."))


class ConversationBusy(OutliveError):
    """A conversation has one active run at a time; nothing was stored. `run_id` is the one that is."""

    def __init__(self, run_id: str, *, in_doubt: bool) -> None:
        self.code = "run_needs_reconciliation" if in_doubt else "conversation_busy"
        text = _("A run of this conversation is active. Wait for its end, or say enqueue or interrupt.")
        if in_doubt:
            text = _("It is not known whether something that the last run sent took effect. Messages wait until then.")
        super().__init__(text, run_id=run_id)


class AlreadyStarted(OutliveError):
    """A waiting message cannot be taken back any more: it is the run `run_id`. That can be stopped."""

    code = "already_started"

    def __init__(self, run_id: str) -> None:
        super().__init__(_("This message has become a run already. Stop that one instead."), run_id=run_id)


class NotRetriable(OutliveError):
    """A new attempt cannot begin now; nothing was changed."""

    def __init__(self, reason: str, operation_ids: list[str]) -> None:
        codes = {
            "not_settled": (
                "run_not_terminal",
                _("This run has not ended. Stop it, or wait until it has ended; then retry."),
            ),
            "child": (
                "run_is_child",
                _("Another run began this one. Retry that one; what it needs of this one is then tried again with it."),
            ),
            "shell": (
                "run_is_shell",
                _("A shell is not tried again: what was typed into it is gone with it. Open a new one."),
            ),
            "in_doubt": (
                "run_needs_reconciliation",
                _("It is not known whether something that this run sent took effect. Retry once that is settled."),
            ),
            "contradicted": (
                "operation_contradicted",
                _("A late receipt contradicts what was decided about an operation. An operator must review it first."),
            ),
        }
        self.code, message = codes[reason]
        super().__init__(message, operation_ids=operation_ids)


class NotCompensable(OutliveError):
    """It cannot be undone by us, or not now; nothing was sent."""

    def __init__(self, reason: str, compensation_id: str | None = None) -> None:
        codes = {
            "cannot_compensate": _("This tool does not know how to undo what it did. Undo it at the target yourself."),
            "not_committed": _("Only what is known to have happened can be undone. Settle the operation first."),
            "already_compensated": _("It is being undone already, or was; look at that compensation."),
            "not_unknown": _("This compensation is not unknown, so there is nothing to decide."),
        }
        self.code = reason
        super().__init__(codes[reason], compensation_id=compensation_id)


class CannotLookUp(OutliveError):
    """The target is not asked about this operation; nothing was changed. `code` says why."""

    def __init__(self, reason: str) -> None:
        codes = {
            "decided": ("operation_decided", _("This operation is decided already, so there is nothing to look up.")),
            "running": ("run_not_terminal", _("The run goes on, and its worker asks the target by itself.")),
            "no_look_up": (
                "cannot_look_up",
                _("This tool offers no look-up. Look at the target yourself, then settle it with a note."),
            ),
        }
        self.code, message = codes[reason]
        super().__init__(message)


class HandsNotChanged(OutliveError):
    """A shell cannot be taken over or handed back so; it is whose it was. `code` says why."""

    def __init__(self, reason: str) -> None:
        codes = {
            "not_agents": (
                "not_an_agents_shell",
                _("No agent has opened this shell. Control of it goes by its socket."),
            ),
            "ended": ("shell_ended", _("This shell has ended, or is ending.")),
            "held": (
                "shell_held",
                _("Somebody else has taken this shell over. Only they hand it back; you may take it."),
            ),
        }
        self.code, message = codes[reason]
        super().__init__(message)


class NotYet(OutliveError):
    """Something sent may still arrive; "did not happen" cannot be said before `horizon_at`, or without proof."""

    code = "not_yet"

    def __init__(self, horizon_at: datetime | None, holder_gone: bool) -> None:
        if holder_gone and horizon_at:
            text = _("The request may still arrive until %(at)s UTC. Settle it after that.") % {
                "at": f"{horizon_at:%Y-%m-%d %H:%M:%S}"
            }
        else:
            text = _(
                "Nobody has seen the end of the process that sent this, so it may still arrive. "
                "Look it up at the target, or override with a note that says how you know."
            )
        super().__init__(text, horizon_at=horizon_at.isoformat() if horizon_at else None, holder_gone=holder_gone)


class HasReceipt(OutliveError):
    """A stored receipt says that it happened; "did not happen" would let a retry do it twice."""

    code = "has_receipt"

    def __init__(self) -> None:
        super().__init__(
            _("A receipt says that this happened; nothing was changed. Read the evidence, then settle it as happened.")
        )


class Busy(OutliveError):
    """Another decision held the row for longer than the lock timeout; nothing was done."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__(_("The run is busy with another decision. Nothing was changed; try again in a moment."))


class RuleBroken(AssertionError):
    """Our own code did what the rules forbid. Never caught: it is a bug, and the transaction is rolled back."""
