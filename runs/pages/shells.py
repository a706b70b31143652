"""Shells: the list, opening one, and the page of one. The page's bytes come over its socket; this renders the frame."""

from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.csp import csp_override
from django.views.decorators.http import require_POST, require_safe

from runs import recordings, selectors, shells
from runs.access import Actor
from runs.errors import IdempotencyMismatch, InvalidInput
from runs.ids import new_id, text_id
from runs.models import Shell
from runs.pages import words
from runs.pages.stop_words import stop_line
from runs.pages.visits import page, read_id, show
from runs.states import CANCELLABLE, ENDED, STOPPING
from tools.processes.terminals.screen import NoScreen, last_text

PAGE_ROWS = 25
KEEP_SECONDS = 3600.0
MOST_NAMES = 5  # of who watches
KEY_LENGTH = 200
# xterm.js writes the colours of a program as style attributes; its style elements carry the page's nonce.
POLICY = settings.SECURE_CSP | {"style-src-attr": ["'unsafe-inline'"]}


@require_safe
@page
def shell_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the shells of the workspace, newest first, and the form that opens one."""
    return _show_list(request, actor)


@require_POST
@page
def new_shell(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Open a shell and go to its page. The key of the form makes a second click open the same one."""
    target = request.POST.get("target", "")
    command = request.POST.get(f"command-{target}", request.POST.get("command", ""))
    try:
        opened = shells.open_shell(
            actor=actor,
            target=target or None,
            command=command.strip() or None,
            title=request.POST.get("title", "").strip() or None,
            is_recorded="record" in request.POST,
            idempotency_key=request.POST.get("key", "")[:KEY_LENGTH].replace("\x00", "") or None,
        )
    except InvalidInput as error:
        return _show_list(request, actor, problem=error.message, status=400)
    except IdempotencyMismatch:
        problem = _("This page has opened a shell already. Press Open again for a second one.")
        return _show_list(request, actor, problem=problem, status=409)
    return _see(opened.shell)


@csp_override(POLICY)
@require_safe
@page
def shell_page(request: HttpRequest, actor: Actor, shell_id: str) -> HttpResponse:
    """Show a shell: the frame around its terminal, and without JavaScript its last screen as text."""
    shell = shells.get_shell(actor, read_id("shell", shell_id))
    run = shell.run
    view, _seq = selectors.view_of(run)
    people = selectors.people_of(actor)
    may_pilot, may_stop = shells.may_pilot(actor, shell), actor.may("run.stop", run)
    context = {
        "shell": shell,
        "shell_id": text_id("shell", shell.pk),
        "run": run,
        "run_id": text_id("run", run.pk),
        "parent_id": text_id("run", run.parent_id) if run.parent_id else "",
        "status_word": words.STATUS[run.status].text,
        "target": shells.LOCAL if shell.target is None else shell.target.name,
        "is_over": run.status in ENDED,
        "has_recording": shell.is_recorded and recordings.recording_path(shell.pk).is_file(),
        "may_pilot": may_pilot,
        "may_stop": may_stop,
        "can_stop": may_stop and run.status in CANCELLABLE,
        "is_stopping": run.status in STOPPING,
        "stop_line": stop_line(view, people=people, is_late=request.GET.get("stop") == "late"),
        "last_screen": last_screen(shell.pk),
        "watching": watching_text(actor, shell),
        "state": describe_shell(shell),
        "view": {"status": run.status, "stream_id": text_id("st", run.stream_id), "steps": []}
        | {key: view[key] for key in ("cancel", "terminal_at", "waiting")},
        "words": words.words_for_scripts(),
        "people": people,
        "key": f"page-{new_id().hex}",
    }
    return show(request, actor, "pages/shell.html", context, section="shells")


@require_POST
@page
def keep(request: HttpRequest, actor: Actor, shell_id: str) -> HttpResponse:
    """Let a shell that nobody is in control of live for another hour."""
    shell = shells.keep_shell(actor=actor, shell_id=read_id("shell", shell_id), seconds=KEEP_SECONDS)
    if "application/json" not in request.headers.get("Accept", ""):
        messages.success(request, _("The shell is kept for an hour."))
    return _see(shell)


def describe_shell(shell: Shell) -> dict[str, Any]:
    """Say how a shell stands, for its scripts: what `run` and `exit` frames of its socket say later."""
    run = shell.run
    has_ended = run.status in ENDED
    why = run.cancel_reason or ("exited" if run.status == "completed" else run.status)
    return {
        "grace_expires_at": None if run.grace_expires_at is None or has_ended else run.grace_expires_at.isoformat(),
        "exit": {"code": shell.exit_code, "signal": shell.signal, "why": why} if has_ended else None,
    }


def watching_text(actor: Actor, shell: Shell) -> str:
    """Say who watches; the same as watchingText in runs/static/runs/shell_words.js, with which it goes on."""
    people = shells.watching(shell)
    others = [one for one in people if one.user_id != actor.user.pk]
    names = [one.name for one in others[:MOST_NAMES]]
    if len(others) > MOST_NAMES:
        names.append(_("%(n)s more") % {"n": len(others) - MOST_NAMES})
    return _("Watching: %(names)s") % {"names": ", ".join(names)} if names else ""


def last_screen(shell_id: UUID) -> str | None:
    """Give the screen of a shell, or its last one, as plain text; None where nobody keeps it."""
    try:
        return async_to_sync(last_text)(str(settings.TERMINALS), text_id("shell", shell_id))
    except NoScreen:
        return None


def _show_list(request: HttpRequest, actor: Actor, *, problem: str = "", status: int = 200) -> HttpResponse:
    rows: Page[Shell] = Paginator(shells.visible_shells(actor), PAGE_ROWS).get_page(request.GET.get("page"))
    targets = [
        {"name": shells.LOCAL, "commands": [], "may_record": False}
        if target is None
        else {"name": target.name, "commands": target.commands, "may_record": target.may_record, "kind": target.kind}
        for target in shells.targets_of(actor)
    ]
    context: dict[str, Any] = {
        "page": rows, "targets": targets, "problem": problem, "key": f"page-{new_id().hex}",
        "may_open": actor.may("shell.open"),
    }  # fmt: skip
    return show(request, actor, "pages/shells.html", context, section="shells", status=status)


def _see(shell: Shell) -> HttpResponse:
    answer = HttpResponseRedirect(reverse("pages:shell", args=[text_id("shell", shell.pk)]))
    answer.status_code = 303
    return answer
