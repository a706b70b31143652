"""The audit: who did what to something that is not theirs alone. Rows are only added."""

from typing import Any

from runs.access import Actor
from runs.models import AuditEntry


def audit(actor: Actor, action: str, subject: str, detail: dict[str, Any]) -> None:
    """Put down an action of an actor in their tenant. subject: the outside id of what it was done to."""
    AuditEntry.objects.create(tenant=actor.tenant, user=actor.user, action=action, subject=subject, detail=detail)
