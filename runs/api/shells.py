"""Shells over HTTP: open, list, read, keep, end. Typing and watching go over the shell's socket."""

from datetime import datetime
from typing import Any

from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router

from runs import recordings, shell_hands, shells
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.identifiers import idempotency_key_of
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.run_object import API_ROOT
from runs.api.schemas import ErrorEnvelope, Grace, ListOut
from runs.api.shell_schemas import EndShell, KeepShell, OpenShell, ShellOut
from runs.frames import write_time
from runs.ids import parse_id, text_id
from runs.models import Shell

router = Router(tags=["shells"])
NEWEST_FIRST = Order("created_at", is_newest_first=True)


@router.post(
    "/shells",
    response={201: ShellOut, 200: ShellOut, 400: ErrorEnvelope, 403: ErrorEnvelope, 404: ErrorEnvelope},
    operation_id="open_shell",
)
def open_shell(request: HttpRequest, body: OpenShell | None = None) -> HttpResponse:
    """Open a shell: a run whose program people type into over its socket. The same Idempotency-Key brings it back."""
    wanted = body or OpenShell()
    policy = wanted.on_disconnect
    opened = shells.open_shell(
        actor=actor_of(request),
        target=wanted.target,
        command=wanted.command,
        rows=wanted.rows,
        cols=wanted.cols,
        title=wanted.title,
        deadline_seconds=wanted.deadline_s,
        on_disconnect={"grace_s": policy.grace_s} if isinstance(policy, Grace) else policy,
        is_recorded=wanted.record,
        idempotency_key=idempotency_key_of(request),
    )
    headers = {"Location": f"{API_ROOT}/shells/{text_id('shell', opened.shell.pk)}"}
    if not opened.is_new:
        headers["Idempotent-Replayed"] = "true"
    return json_answer(write_shell(opened.shell), status=201 if opened.is_new else 200, headers=headers)


@router.get("/shells", response={200: ListOut[ShellOut], 400: ErrorEnvelope}, operation_id="list_shells")
def list_shells(
    request: HttpRequest, open: bool | None = None, limit: int = 20, cursor: str | None = None
) -> HttpResponse:
    """List shells, newest first; `open=true` leaves out those whose run has ended, `open=false` the others."""
    actor = actor_of(request)
    actor.require("shell.watch")
    refuse_unknown_parameters(request, ("open",))
    found = shells.visible_shells(actor)
    if open is not None:
        found = found.filter(run__terminal_at__isnull=open)
    return json_answer(read_page(found, request, NEWEST_FIRST).body(write_shell))


@router.get("/shells/{shell_id}", response={200: ShellOut, 404: ErrorEnvelope}, operation_id="get_shell")
def get_shell(request: HttpRequest, shell_id: str) -> HttpResponse:
    """Read a shell."""
    actor = actor_of(request)
    actor.require("shell.watch")
    return json_answer(write_shell(shells.get_shell(actor, parse_id("shell", shell_id))))


@router.post(
    "/shells/{shell_id}/terminate",
    response={202: ShellOut, 200: ShellOut, 403: ErrorEnvelope, 404: ErrorEnvelope},
    operation_id="terminate_shell",
)
def terminate_shell(request: HttpRequest, shell_id: str, body: EndShell | None = None) -> HttpResponse:
    """End a shell, which is the stop of its run. 202 while it is ending, 200 once it has ended; never a conflict."""
    shell = shells.terminate_shell(
        actor=actor_of(request), shell_id=parse_id("shell", shell_id), note=body.note if body is not None else ""
    )
    return json_answer(write_shell(shell), status=200 if shells.is_over(shell) else 202)


@router.post(
    "/shells/{shell_id}/keep",
    response={200: ShellOut, 400: ErrorEnvelope, 403: ErrorEnvelope, 404: ErrorEnvelope},
    operation_id="keep_shell",
)
def keep_shell(request: HttpRequest, shell_id: str, body: KeepShell) -> HttpResponse:
    """Give a shell that nobody pilots more time. Where nothing counts down, nothing changes."""
    shell = shells.keep_shell(actor=actor_of(request), shell_id=parse_id("shell", shell_id), seconds=body.seconds)
    return json_answer(write_shell(shell))


@router.post(
    "/shells/{shell_id}/take_over",
    response={200: ShellOut, 403: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope},
    operation_id="take_over_shell",
)
def take_over_shell(request: HttpRequest, shell_id: str) -> HttpResponse:
    """Take an agent's shell over: no key of the agent goes in until you hand it back. Again: nothing changes."""
    shell = shell_hands.take_over_shell(actor=actor_of(request), shell_id=parse_id("shell", shell_id))
    return json_answer(write_shell(shell))


@router.post(
    "/shells/{shell_id}/hand_back",
    response={200: ShellOut, 403: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope},
    operation_id="hand_back_shell",
)
def hand_back_shell(request: HttpRequest, shell_id: str) -> HttpResponse:
    """Hand a shell that you have taken over back to its agent. Again: nothing changes."""
    shell = shell_hands.hand_back_shell(actor=actor_of(request), shell_id=parse_id("shell", shell_id))
    return json_answer(write_shell(shell))


@router.get(
    "/shells/{shell_id}/recording",
    response={404: ErrorEnvelope},
    operation_id="download_shell_recording",
    openapi_extra={"responses": {200: {"description": "asciicast v2", "content": {"application/x-asciicast": {}}}}},
)
def download_recording(request: HttpRequest, shell_id: str) -> HttpResponseBase:
    """Download what a recorded shell has printed so far, as asciicast v2. 404 once it was deleted by its age."""
    actor = actor_of(request)
    actor.require("shell.watch")
    path = recordings.find_recording(actor=actor, shell_id=parse_id("shell", shell_id))
    answer = FileResponse(path.open("rb"), as_attachment=True, filename=path.name)
    answer["Content-Type"] = "application/x-asciicast"
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer


def write_shell(shell: Shell) -> dict[str, Any]:
    """Write a shell with what its run says of it."""
    run, shell_id = shell.run, text_id("shell", shell.pk)
    path = f"{API_ROOT}/shells/{shell_id}"
    ended = run.result if run.has_result and isinstance(run.result, dict) else {}
    return {
        "id": shell_id,
        "object": "shell",
        "run": text_id("run", run.pk),
        "status": run.status,
        "title": run.title,
        "target": shells.LOCAL if shell.target is None else shell.target.name,
        "command": shell.command,
        "rows": shell.rows,
        "cols": shell.cols,
        "opened_by": shell.opened_by,
        "is_recorded": shell.is_recorded,
        "created_at": write_time(shell.created_at),
        "created_by": run.created_by.get_username(),
        "held_by": None if shell.held_by is None else shell.held_by.get_username(),
        "in_control": shells.in_control(shell),
        "watching": [{"name": one.name, "windows": one.windows} for one in shells.watching(shell)],
        "ended_at": _time(run.terminal_at),
        # The row follows a sweep later; the run's result is there at once.
        "exit_code": ended.get("exit_code", shell.exit_code),
        "signal": ended.get("signal", shell.signal),
        "cancel_reason": run.cancel_reason,
        "on_disconnect": "continue" if run.grace_seconds is None else {"grace_s": run.grace_seconds},
        "grace_expires_at": _time(run.grace_expires_at),
        "deadline_at": _time(run.deadline_at),
        "links": {
            "self": path,
            "run": f"{API_ROOT}/runs/{text_id('run', run.pk)}",
            "socket": f"/ws/v1/shells/{shell_id}/",
            "terminate": f"{path}/terminate",
            "keep": f"{path}/keep",
            "take_over": f"{path}/take_over" if shell.opened_by == "agent" else None,
            "hand_back": f"{path}/hand_back" if shell.opened_by == "agent" else None,
            "recording": f"{path}/recording" if shell.is_recorded else None,
            "html": f"/shells/{shell_id}/",
        },
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else write_time(at)
