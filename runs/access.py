"""Who may do what: one table of rights by role, and the actor that every command is done by."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.utils import timezone

from runs.database import fetch
from runs.errors import NotAllowed
from runs.models import ApiToken, Conversation, Membership, Role, Run, Tenant

TOKEN_PREFIX = "outlive_"
SCOPES = frozenset(
    {
        "runs:read", "runs:write", "runs:cancel", "operations:settle", "operations:redo", "compensations:authorize",
        "shells:view", "shells:write",
    }
)  # fmt: skip
_RANK = {Role.VIEWER: 0, Role.RUNNER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}

# right -> (lowest role, lowest role for a run of somebody else, scope of a token)
RIGHTS: dict[str, tuple[Role, Role, str]] = {
    "run.read": (Role.VIEWER, Role.VIEWER, "runs:read"),
    "run.create": (Role.RUNNER, Role.RUNNER, "runs:write"),
    "run.answer": (Role.RUNNER, Role.OPERATOR, "runs:write"),
    "run.retry": (Role.RUNNER, Role.OPERATOR, "runs:write"),
    "operation.redo": (Role.RUNNER, Role.OPERATOR, "operations:redo"),
    "conversation.continue": (Role.RUNNER, Role.OPERATOR, "runs:write"),
    "run.stop": (Role.RUNNER, Role.OPERATOR, "runs:cancel"),
    "run.force_stop": (Role.OPERATOR, Role.OPERATOR, "runs:cancel"),
    "shell.watch": (Role.VIEWER, Role.VIEWER, "shells:view"),
    "shell.open": (Role.RUNNER, Role.RUNNER, "shells:write"),
    "shell.pilot": (Role.RUNNER, Role.OPERATOR, "shells:write"),
    "shell.end": (Role.RUNNER, Role.OPERATOR, "shells:write"),
    "document.write": (Role.RUNNER, Role.RUNNER, "runs:write"),
    "operation.settle": (Role.OPERATOR, Role.OPERATOR, "operations:settle"),
    "operation.compensate": (Role.OPERATOR, Role.OPERATOR, "compensations:authorize"),
    "run.hold": (Role.ADMIN, Role.ADMIN, "tenant:manage"),
    "tenant.watch": (Role.OPERATOR, Role.OPERATOR, "runs:read"),
    "tenant.manage": (Role.ADMIN, Role.ADMIN, "tenant:manage"),
}


def covers(role: Role, right: str, *, is_foreign: bool) -> bool:
    """Say whether a role has a right; is_foreign: on a run of somebody else."""
    own, foreign, _scope = RIGHTS[right]
    return _RANK[role] >= _RANK[foreign if is_foreign else own]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or their program) in one tenant, with a role there. `scopes` and `token_id` are None for a session."""

    user: Any
    tenant: Tenant
    role: Role
    scopes: frozenset[str] | None = None
    token_id: UUID | None = None

    def may(self, right: str, run: Run | Conversation | None = None) -> bool:
        """Say whether the role and the token's scopes cover a right, on a run (or conversation) where one is given."""
        if self.scopes is not None and RIGHTS[right][2] not in self.scopes:
            return False
        return covers(self.role, right, is_foreign=run is not None and run.created_by_id != self.user.pk)

    def require(self, right: str, run: Run | Conversation | None = None) -> None:
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
    rows = fetch(_token_query(), {"digest": hash_token(text)})
    if not rows:
        return None
    row = rows[0]
    if row["is_worth_noting"]:
        ApiToken.objects.filter(pk=row["id"]).update(last_used_at=timezone.now())
    user, tenant = _made(get_user_model(), row, "user_"), _made(Tenant, row, "tenant_")
    return Actor(user, tenant, Role(row["role"]), frozenset(row["scopes"]), row["id"])


@cache
def _token_query() -> str:
    """Each request of a program asks this: through the ORM it took half of a request's time, most of it to compile."""
    user, token = get_user_model()._meta, ApiToken._meta
    columns = [f'u."{f.column}" as "user_{f.column}"' for f in user.concrete_fields]
    columns += [f't."{f.column}" as "tenant_{f.column}"' for f in Tenant._meta.concrete_fields]
    return f"""
        select k.id, k.scopes, m.role, {", ".join(columns)},
          k.last_used_at is null or k.last_used_at < clock_timestamp() - interval '1 minute' as is_worth_noting
        from "{token.db_table}" k
        join "{user.db_table}" u on u.id = k.user_id and u.is_active
        join "{Tenant._meta.db_table}" t on t.id = k.tenant_id
        join "{Membership._meta.db_table}" m on m.user_id = k.user_id and m.tenant_id = k.tenant_id
        where k.digest = %(digest)s and k.revoked_at is null
          and (k.expires_at is null or k.expires_at > clock_timestamp())"""


def _made(model: Any, row: dict[str, Any], prefix: str) -> Any:
    fields = model._meta.concrete_fields
    return model.from_db("default", [f.attname for f in fields], [row[prefix + f.column] for f in fields])


def operator_tenants(user: Any) -> list[Tenant]:
    """Return the tenants whose runs a member of staff may see in the admin: where they are operator or admin."""
    if user.is_superuser:
        return list(Tenant.objects.all())
    roles = [Role.OPERATOR, Role.ADMIN]
    return [m.tenant for m in Membership.objects.select_related("tenant").filter(user=user, role__in=roles)]


def display_name(user: Any) -> str:
    """Return how a person is named in events and pages."""
    return str(user.get_username())
