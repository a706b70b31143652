"""Who may do what: one table of rights by role, and the actor that every command is done by."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.utils import timezone

from runs.errors import NotAllowed
from runs.models import ApiToken, Membership, Role, Run, Tenant

TOKEN_PREFIX = "outlive_"
SCOPES = frozenset({"runs:read", "runs:write", "runs:cancel", "operations:settle"})
_RANK = {Role.VIEWER: 0, Role.RUNNER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}

# right -> (lowest role, lowest role for a run of somebody else, scope of a token)
RIGHTS: dict[str, tuple[Role, Role, str]] = {
    "run.read": (Role.VIEWER, Role.VIEWER, "runs:read"),
    "run.create": (Role.RUNNER, Role.RUNNER, "runs:write"),
    "run.answer": (Role.RUNNER, Role.OPERATOR, "runs:write"),
    "run.stop": (Role.RUNNER, Role.OPERATOR, "runs:cancel"),
    "document.write": (Role.RUNNER, Role.RUNNER, "runs:write"),
    "operation.settle": (Role.OPERATOR, Role.OPERATOR, "operations:settle"),
    "tenant.manage": (Role.ADMIN, Role.ADMIN, "tenant:manage"),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or their program) in one tenant, with a role there. `scopes` and `token_id` are None for a session."""

    user: Any
    tenant: Tenant
    role: Role
    scopes: frozenset[str] | None = None
    token_id: UUID | None = None

    def may(self, right: str, run: Run | None = None) -> bool:
        """Say whether the role and the token's scopes cover a right, on a run where one is given."""
        own, foreign, scope = RIGHTS[right]
        if self.scopes is not None and scope not in self.scopes:
            return False
        is_foreign = run is not None and run.created_by_id != self.user.pk
        return _RANK[self.role] >= _RANK[foreign if is_foreign else own]

    def require(self, right: str, run: Run | None = None) -> None:
        """Raise NotAllowed unless `may` says yes."""
        if not self.may(right, run):
            raise NotAllowed(right)


def actor_for(user: Any, tenant: Tenant | None = None) -> Actor | None:
    """Return the actor of a signed-in person: in `tenant`, else in the first one they belong to; None without one."""
    if not user.is_authenticated or not user.is_active:
        return None
    memberships = Membership.objects.select_related("tenant").filter(user=user)
    if tenant is not None:
        memberships = memberships.filter(tenant=tenant)
    membership = memberships.order_by("created_at").first()
    if membership is None:
        return None
    return Actor(user, membership.tenant, Role(membership.role))


def hash_token(text: str) -> str:
    """Return what is stored of a token. Tokens are 256 random bits, so a plain SHA-256 is enough."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def issue_token(
    *, user: Any, tenant: Tenant, name: str, scopes: Iterable[str], lifetime: timedelta | None = None
) -> tuple[ApiToken, str]:
    """Make a token; its text is returned here and never again.

    Raises: ValueError for a scope that does not exist.
    """
    unknown = set(scopes) - SCOPES
    if unknown:
        raise ValueError(f"unknown scopes: {sorted(unknown)}")
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    expires_at = timezone.now() + lifetime if lifetime else None
    token = ApiToken.objects.create(
        user=user, tenant=tenant, name=name, scopes=sorted(scopes), digest=hash_token(text), expires_at=expires_at
    )
    return token, text


def actor_for_token(text: str) -> Actor | None:
    """Return the actor that a token stands for; None when it is unknown, expired, revoked, or its owner is out."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("tenant", "user")
        .filter(digest=hash_token(text), revoked_at__isnull=True, user__is_active=True)
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .filter(user__memberships__tenant=F("tenant"))
        .annotate(role=F("user__memberships__role"))
        .first()
    )
    if token is None:
        return None
    if token.last_used_at is None or token.last_used_at < now - timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return Actor(token.user, token.tenant, Role(token.role), frozenset(token.scopes), token.pk)


def operator_tenants(user: Any) -> list[Tenant]:
    """Return the tenants whose runs a member of staff may see in the admin: where they are operator or admin."""
    if user.is_superuser:
        return list(Tenant.objects.all())
    roles = [Role.OPERATOR, Role.ADMIN]
    return [m.tenant for m in Membership.objects.select_related("tenant").filter(user=user, role__in=roles)]


def display_name(user: Any) -> str:
    """Return how a person is named in events and pages."""
    return str(user.get_username())
