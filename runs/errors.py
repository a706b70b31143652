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
      NotYet              an operation cannot be called "did not happen" before its horizon
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


class Busy(OutliveError):
    """Another decision held the row for longer than the lock timeout; nothing was done."""

    code = "busy"

    def __init__(self) -> None:
        super().__init__(_("The run is busy with another decision. Nothing was changed; try again in a moment."))


class RuleBroken(AssertionError):
    """Our own code did what the rules forbid. Never caught: it is a bug, and the transaction is rolled back."""
