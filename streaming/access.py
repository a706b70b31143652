"""Who may open a stream, and who still may: synchronous, for a thread, since it is Django's own tables.

A person comes with the session cookie, a program with a bearer token. What was granted is written down as a `Who`,
which can be checked again, many at once, while the stream is open.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.contrib.sessions.models import Session
from django.db import close_old_connections
from django.db.models import Q
from django.http import HttpRequest, parse_cookie
from django.utils import timezone

from runs.access import Actor, actor_for, actor_for_token, covers
from runs.models import ApiToken, Membership, Role, Run, Shell, ShellTarget, Tenant
from runs.shells import is_open, may_pilot
from streaming.protocol import Close
from streaming.reader import Ending

NOT_SIGNED_IN = Ending(Close.NOT_SIGNED_IN, "not_signed_in")
FORBIDDEN = Ending(Close.FORBIDDEN, "forbidden")
UNKNOWN_RUN = Ending(Close.UNKNOWN_RUN, "unknown_run")
UNKNOWN_SHELL = Ending(Close.UNKNOWN_RUN, "unknown_shell")
NOBODYS = UUID(int=0)  # the id of nothing
ROLE_CHANGED = Ending(Close.BUSY, "role_changed", 0.0)  # whoever comes back is granted what they may now


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a connection brought along."""

    session_key: str | None
    bearer: str | None


@dataclass(frozen=True, slots=True)
class Who:
    """By whose right a stream is open. `password` is the stored hash: another one means that sessions are void.

    `controls`: whose run it holds a control connection of, "own" or "foreign"; None where it only watches. A shell's
    target may close to its pilot while it is open.
    """

    user_id: int
    tenant_id: UUID
    password: str
    session_key: str | None
    token_id: UUID | None
    controls: str | None = None
    target_id: UUID | None = None  # where it pilots a shell


@dataclass(frozen=True, slots=True)
class Admitted:
    """A reader that may read; `run` is None for the feed."""

    actor: Actor
    who: Who
    run: Run | None
    may_pilot: bool = False  # the run's shell
    target_id: UUID | None = None  # of that shell

    @property
    def may_stop(self) -> bool:
        """Whether it may hold a control connection."""
        return self.run is not None and self.actor.may("run.stop", self.run)

    @property
    def in_control(self) -> Who:
        """Who it is, as the holder of a control connection."""
        is_own = self.run is not None and self.run.created_by_id == self.who.user_id
        return replace(self.who, controls="own" if is_own else "foreign", target_id=self.target_id)


def read_credentials(headers: Iterable[tuple[bytes, bytes]]) -> Credentials:
    """Find the session cookie and the bearer token in an ASGI scope's headers."""
    session_key = bearer = None
    for name, value in headers:
        if name == b"cookie":
            # As pages read it: http.cookies gives up at the first odd cookie of another program on this host.
            session_key = parse_cookie(value.decode("latin-1")).get(settings.SESSION_COOKIE_NAME, session_key)
        elif name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            bearer = token.strip() if scheme.lower() == "bearer" else ""
    return Credentials(session_key, bearer)


def admit_to_shell(credentials: Credentials, shell_id: UUID | None) -> Admitted | Ending:
    """Let a connection in to a shell, as `admit` does to a run, and say whether it may be its pilot."""
    shell = Shell.objects.select_related("run", "target").filter(pk=shell_id or NOBODYS).first()
    found = admit(credentials, NOBODYS if shell is None else shell.run_id, right="shell.watch")
    if shell is None or isinstance(found, Ending):
        return UNKNOWN_SHELL if found is UNKNOWN_RUN or isinstance(found, Admitted) else found
    try:
        return replace(found, may_pilot=may_pilot(found.actor, shell), target_id=shell.target_id)
    finally:
        close_old_connections()


def admit(credentials: Credentials, run_id: UUID | None, right: str = "run.read") -> Admitted | Ending:
    """Let a connection in to a run (or, without one, to the feed of its tenant), or say how it is closed."""
    try:
        run = None
        if run_id is not None:
            run = Run.objects.select_related("tenant").filter(pk=run_id).first()
        found = _by_token(credentials) if credentials.bearer is not None else _by_session(credentials, run)
        if isinstance(found, Ending):
            return found
        actor, who = found
        if run_id is not None and (run is None or run.tenant_id != actor.tenant.pk):
            return UNKNOWN_RUN  # a foreign run looks like one that does not exist
        return Admitted(actor, who, run) if actor.may(right, run) else FORBIDDEN
    finally:
        close_old_connections()


def _by_token(credentials: Credentials) -> tuple[Actor, Who] | Ending:
    actor = actor_for_token(credentials.bearer or "")
    if actor is None:
        return NOT_SIGNED_IN
    return actor, who_called(actor, None)


def _by_session(credentials: Credentials, run: Run | None) -> tuple[Actor, Who] | Ending:
    if not credentials.session_key:
        return NOT_SIGNED_IN
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(credentials.session_key)
    user: Any = get_user(request)
    if not user.is_authenticated or not user.is_active:
        return NOT_SIGNED_IN
    actor = actor_for(user, run.tenant if run is not None else None)
    if actor is None:
        return UNKNOWN_RUN if run is not None else FORBIDDEN
    return actor, Who(user.pk, actor.tenant.pk, user.password, credentials.session_key, None)


def who_called(actor: Actor, session_key: str | None) -> Who:
    """Write down by whose right a stream is open; a program's token outweighs a cookie that came along."""
    key = None if actor.token_id is not None else session_key
    return Who(actor.user.pk, actor.tenant.pk, actor.user.password, key, actor.token_id)


def check_again(whos: set[Who]) -> dict[Who, Ending]:
    """Say which of these may read no longer, and how their streams are closed. Six queries, however many."""
    try:
        return _check_again(whos)
    finally:
        close_old_connections()


def _check_again(whos: set[Who]) -> dict[Who, Ending]:
    now = timezone.now()
    user_ids = {who.user_id for who in whos}
    passwords = dict(
        get_user_model()._default_manager.filter(pk__in=user_ids, is_active=True).values_list("pk", "password")
    )
    members = {
        (user_id, tenant_id): Role(role)
        for user_id, tenant_id, role in Membership.objects.filter(
            user__in=user_ids, tenant__in=Tenant.objects.filter(pk__in={w.tenant_id for w in whos})
        ).values_list("user_id", "tenant_id", "role")
    }
    keys = {who.session_key for who in whos if who.session_key is not None}
    sessions = set(
        Session.objects.filter(session_key__in=keys, expire_date__gt=now).values_list("session_key", flat=True)
    )
    tokens = set(
        ApiToken.objects.filter(pk__in={w.token_id for w in whos if w.token_id}, revoked_at__isnull=True)
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .values_list("pk", flat=True)
    )
    wanted = {who.target_id for who in whos if who.target_id}
    targets = ShellTarget.objects.prefetch_related("people").in_bulk(wanted) if wanted else {}
    verdicts: dict[Who, Ending] = {}
    for who in whos:
        is_known = who.token_id in tokens if who.token_id is not None else who.session_key in sessions
        if not is_known or passwords.get(who.user_id) != who.password:
            verdicts[who] = NOT_SIGNED_IN
            continue
        role = members.get((who.user_id, who.tenant_id))
        if role is None or not covers(role, "run.read", is_foreign=True):
            verdicts[who] = FORBIDDEN
        elif who.controls and not covers(role, "run.stop", is_foreign=who.controls == "foreign"):
            verdicts[who] = ROLE_CHANGED
        elif who.target_id:
            target = targets.get(who.target_id)
            if target is None or not is_open(target, role, who.user_id):
                verdicts[who] = ROLE_CHANGED
    return verdicts
