"""Shells: who may open one where, and the commands and selectors around them. Their life is their run's."""

import math
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Model, Prefetch, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from runs.access import Actor
from runs.auditing import audit
from runs.creating import SHELL, check_new_run
from runs.database import decide
from runs.decisions import cancels, shells
from runs.errors import IdempotencyMismatch, InvalidInput, NotAllowed, NotFound
from runs.ids import text_id
from runs.inputs import check_text
from runs.models import ControlConnection, Role, Run, Shell, ShellTarget, ShellViewer
from runs.models.shells import MOST_COLS, MOST_ROWS
from runs.states import ENDED, CancelReason, Status

LOCAL = "local"
ROWS, COLS = 24, 80
MOST_COMMAND = 1000
MOST_KEEP_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Opened:
    """The shell; `is_new` is false when the idempotency key brought back the one it had opened before."""

    shell: Shell
    is_new: bool


@dataclass(frozen=True, slots=True)
class Watcher:
    """One person who watches, and by how many windows."""

    user_id: int
    name: str
    windows: int


def open_shell(
    *,
    actor: Actor,
    target: str | None = None,
    command: str | None = None,
    rows: int = ROWS,
    cols: int = COLS,
    title: str | None = None,
    deadline_seconds: float | None = None,
    on_disconnect: Any = None,
    is_recorded: bool = False,
    idempotency_key: str | None = None,
) -> Opened:
    """Start a run that is a shell. With a key that this actor used before, the same body brings back the same one.

    Args: target: the name of one; None is the local one; command: None is the target's first, or its login shell.
    Raises: NotAllowed, NotFound (no such target), InvalidInput (naming the field), IdempotencyMismatch.
    """
    place = find_target(actor, target or LOCAL)
    asked = shells.NewShell(
        target_id=None if place is None else place.pk, command=_check_command(place, command),
        rows=_check_size("rows", rows, MOST_ROWS), cols=_check_size("cols", cols, MOST_COLS), opened_by="person",
        is_recorded=_check_recorded(place, is_recorded),
    )  # fmt: skip
    name = LOCAL if place is None else place.name
    wanted = {"target": name, "command": asked.command, "rows": asked.rows, "cols": asked.cols,
              "is_recorded": asked.is_recorded}  # fmt: skip
    _spec, new = check_new_run(
        actor=actor, agent=SHELL, input=wanted, title=title or asked.command[:80] or name,
        deadline_seconds=deadline_seconds, on_disconnect=on_disconnect, metadata=None, budget_tokens=None,
        idempotency_key=idempotency_key, right="shell.open",
    )  # fmt: skip
    row = decide(shells.open_shell(new, asked))
    if row is not None:
        return Opened(visible_shells(actor).get(run=row["id"]), True)
    first = Run.objects.get(created_by=actor.user, tenant=actor.tenant, idempotency_key=idempotency_key)
    if first.idempotency_digest != new.idempotency_digest:
        raise IdempotencyMismatch
    return Opened(visible_shells(actor).get(run=first), False)


def visible_shells(actor: Actor) -> QuerySet[Shell]:
    """Return the shells of the actor's tenant, newest first; none without the right to watch."""
    if not actor.may("shell.watch"):
        return Shell.objects.none()
    found = Shell.objects.filter(tenant=actor.tenant).select_related(
        "run__created_by", "run__cancel_by", "target", "held_by"
    )
    return found.prefetch_related(
        Prefetch("run__control_connections", _present(ControlConnection, is_pilot=True, is_live=True), "pilots"),
        Prefetch("run__shell_viewers", _present(ShellViewer), "watchers"),
    )


def _present(kind: type[Model], **more: bool) -> QuerySet[Any]:
    """Return the connections of runs that go on whose lease has not passed."""
    rows = kind._default_manager.filter(presence_until__gt=Now(), run__terminal_at__isnull=True, **more)
    return rows.select_related("user").order_by("attached_at", "id")


def in_control(shell: Shell) -> str | None:
    """Say who is in control of a visible shell by a live connection; None: nobody."""
    pilots: list[ControlConnection] = shell.run.pilots  # type: ignore[attr-defined]
    return max(pilots, key=lambda one: one.generation).user.get_username() if pilots else None


def watching(shell: Shell) -> list[Watcher]:
    """Say who watches a visible shell, those who came first before the others."""
    found: dict[int, Watcher] = {}
    for viewer in shell.run.watchers:  # type: ignore[attr-defined]
        known = found.get(viewer.user_id)
        windows = 1 if known is None else known.windows + 1
        found[viewer.user_id] = Watcher(viewer.user_id, viewer.user.get_username(), windows)
    return list(found.values())


def get_shell(actor: Actor, shell_id: UUID) -> Shell:
    """Return a shell that the actor may watch. Raises: NotFound, also for one of another tenant."""
    shell = visible_shells(actor).filter(pk=shell_id).first()
    if shell is None:
        raise NotFound("shell")
    return shell


def may_pilot(actor: Actor, shell: Shell) -> bool:
    """Say whether the actor may type into it: their own, any one as an operator; and the target still lets them in."""
    return actor.may("shell.pilot", shell.run) and (shell.target is None or lets_in(shell.target, actor))


def terminate_shell(*, actor: Actor, shell_id: UUID, note: str = "") -> Shell:
    """Ask for its end, which is the stop of its run; again, or after its end, it changes nothing.

    Raises: NotFound, NotAllowed.
    """
    shell = get_shell(actor, shell_id)
    actor.require("shell.end", shell.run)
    text = check_text("note", note, most=1000)
    answer = decide(cancels.request_cancel(run_id=shell.run_id, reason=CancelReason.USER, by=actor.user.pk, note=text))
    if answer is not None and answer.is_first and shell.run.created_by_id != actor.user.pk:
        audit(actor, "shell.end", text_id("shell", shell.pk), {"note": text})
    return get_shell(actor, shell_id)


def keep_shell(*, actor: Actor, shell_id: UUID, seconds: float) -> Shell:
    """Give a shell that nobody pilots more time. One that is piloted, or has ended, stays as it is.

    Raises: NotFound, NotAllowed, InvalidInput.
    """
    shell = get_shell(actor, shell_id)
    actor.require("shell.pilot", shell.run)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not is_number or not 0 < seconds <= MOST_KEEP_SECONDS:
        raise InvalidInput("seconds", _("This must be a number of seconds above 0, at most one day."))
    decide(shells.keep_shell(run_id=shell.run_id, seconds=float(seconds)))
    return get_shell(actor, shell_id)


def is_over(shell: Shell) -> bool:
    """Say whether its run has ended."""
    return Status(shell.run.status) in ENDED


def targets_of(actor: Actor) -> list[ShellTarget | None]:
    """Return where the actor may open a shell; None stands for the local one that needs no row."""
    if not actor.may("shell.open"):
        return []
    rows = [row for row in ShellTarget.objects.filter(tenant=actor.tenant) if row.is_enabled]
    found: list[ShellTarget | None] = [row for row in rows if lets_in(row, actor)]
    is_taken = ShellTarget.objects.filter(tenant=actor.tenant, name=LOCAL).exists()
    return [None, *found] if settings.LOCAL_SHELL and not is_taken else found


def lets_in(target: ShellTarget, actor: Actor) -> bool:
    """Say whether a target is for this actor: enabled, the role is enough, and they are named where people are."""
    return is_open(target, actor.role, actor.user.pk)


def is_open(target: ShellTarget, role: Role, user_id: int) -> bool:
    """Say the same of somebody of whom only this is known."""
    if not target.is_enabled or not covers_role(role, Role(target.min_role)):
        return False
    people = {person.pk for person in target.people.all()}
    return not people or user_id in people


def covers_role(role: Role, least: Role) -> bool:
    """Say whether a role may what another one may."""
    order = list(Role)
    return order.index(role) >= order.index(least)


def find_target(actor: Actor, name: str) -> ShellTarget | None:
    """Return the target of that name; None is the local one without a row. A row of the name "local" replaces it.

    Raises: NotFound, NotAllowed.
    """
    actor.require("shell.open")
    # No name holds a NUL, and the database would not take the question.
    row = None if "\x00" in name else ShellTarget.objects.filter(tenant=actor.tenant, name=name).first()
    if row is None:
        if name != LOCAL or not settings.LOCAL_SHELL:
            raise NotFound("shell target")
        return None
    if not lets_in(row, actor):
        raise NotAllowed("shell.open")
    return row


def _check_command(target: ShellTarget | None, command: str | None) -> str:
    """Return what is run; "" is the login shell. A list of the target's is exhaustive."""
    allowed = [] if target is None else list(target.commands)
    text = check_text("command", command or "", most=MOST_COMMAND)
    if not allowed:
        return text
    if text and text not in allowed:
        raise InvalidInput("command", _("This target runs only: %(known)s.") % {"known": ", ".join(allowed)})
    return text or str(allowed[0])


def _check_size(field: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(field, _("This must be a whole number from 1 to %(n)s.") % {"n": most})
    return value


def _check_recorded(target: ShellTarget | None, is_recorded: bool) -> bool:
    if is_recorded and (target is None or not target.may_record):
        raise InvalidInput("record", _("Shells on this target are not recorded; an admin can allow it."))
    return is_recorded
