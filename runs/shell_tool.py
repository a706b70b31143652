"""The tool open_shell: the one call of a shell's run. It reads the shell's row, starts its terminal and owns it."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from django.conf import settings
from pydantic import Field

from runs.access import actor_for
from runs.conf import limits
from runs.database import read_in_thread
from runs.execution.receipts import as_json
from runs.ids import new_id, parse_id, text_id
from runs.models import Shell, ShellTarget
from runs.recordings import recording_path
from runs.shell_places import grace_of, is_remote, judged, remote_plan
from runs.shells import lets_in
from runs.unprivileged import home_of, shell_user
from tools.call import ToolCall
from tools.effects import JSON, Effect, Outcome, Receipt
from tools.errors import OutcomeUnknown, ToolError
from tools.processes.environment import build_environment
from tools.processes.results import CommandNotStarted, RequestLost, TreeProof
from tools.processes.terminals.link import NoHost
from tools.processes.terminals.marks import marking_environment
from tools.processes.terminals.owned import NoTerminal, Plan, Terminals
from tools.processes.terminals.remote import read_verdict
from tools.retry import Retry
from tools.scope import CancelReason
from tools.tool import tool

LONGEST_SECONDS = 8 * 86_400.0  # the run's own deadline comes first
START_SECONDS = 30.0
SHELLS = ("/bin/bash", "/bin/sh")
# Of each process; a target may say otherwise. The number of processes counts per user, so only where that is our own.
MEMORY_MB, PROCESSES, OPEN_FILES = 4096, 512, 4096


async def _adopt(call: ToolCall, arguments: Mapping[str, Any]) -> Receipt | None:
    """Own the terminal that an older claim has started."""
    return await _hold(call, _terminals(call), await read_in_thread(_shell_of, call.run_id))


@tool(
    effect=Effect.WRITE,
    look_up=None,
    adopt=_adopt,
    process=True,
    timeout_seconds=LONGEST_SECONDS,
    request_timeout_seconds=START_SECONDS,
    retry=Retry(tries=4),  # a host of terminals that is being started again
)
async def open_shell(
    call: ToolCall,
    target: Annotated[str, Field(max_length=60)],
    command: Annotated[str, Field(max_length=1000)] = "",
) -> Receipt:
    """Open a terminal, for people to type in, and wait for the end of its program."""
    terminals = _terminals(call)
    shell = await read_in_thread(_shell_of, call.run_id)
    plan = await read_in_thread(_plan, shell, call.workspace, call.settings, terminals.folder)
    call.open()
    try:
        await terminals.start(plan)
    except NoHost as error:
        message = "Nothing on this machine starts terminals: the program `terminals` is not running."
        raise ToolError(message, code="no_terminals", retryable=True) from error
    except RequestLost:
        pass  # it may have started: then we find it
    except CommandNotStarted as error:
        raise ToolError(str(error), code="not_started") from error
    return await _hold(call, terminals, shell)


def _terminals(call: ToolCall) -> Terminals:
    if call.terminals is None:
        raise ToolError("This worker has no terminals.", code="no_terminals")
    return call.terminals


async def _hold(call: ToolCall, terminals: Terminals, shell: Shell) -> Receipt:
    key, grace = text_id("shell", shell.pk), grace_of(shell)
    try:
        proof = await terminals.hold(key, run_id=call.run_id, fence=call.fence, scope=call.scope, grace_seconds=grace)
    except NoTerminal as error:
        message = "The terminal is gone, and nobody has seen its end: something of it may still run."
        raise OutcomeUnknown(message) from error
    return await asyncio.to_thread(_judge, shell, call.scope.reason, proof, terminals.folder)


def write_receipt(shell: Shell, proof: TreeProof, folder: str) -> dict[str, Any] | None:
    """Write the receipt of a terminal that is gone, as evidence of the call that began it; None: it proves nothing."""
    receipt = _judge(shell, CancelReason.OPERATOR, proof, folder)
    if receipt.outcome is Outcome.UNKNOWN:
        return None
    return as_json(receipt, stopped=receipt.outcome is Outcome.FAILED)


def _judge(shell: Shell, reason: CancelReason | None, proof: TreeProof, folder: str) -> Receipt:
    receipt = _receipt(reason, proof)
    if shell.target is None or not is_remote(shell):
        return receipt
    return judged(receipt, read_verdict(folder, text_id("shell", shell.pk)), shell.target.host)


def _receipt(reason: CancelReason | None, proof: TreeProof) -> Receipt:
    status = proof.status
    value: dict[str, JSON] = {
        "exit_code": status if status is not None and status >= 0 else None,
        "signal": -status if status is not None and status < 0 else None,
    }
    if not proof.gone:
        error = "The terminal's processes are not proven gone; some may still run."
        return Receipt(Outcome.UNKNOWN, value=value, proof="no proof", error=error, code="tree_not_proven")
    said = "process tree empty"
    if proof.by_itself:
        return Receipt(Outcome.SUCCEEDED, value=value, proof=said)
    if proof.cause == "worker":
        error = "The shell was ended because no worker came for it, or the machine was started anew."
        return Receipt(Outcome.FAILED, value=value, proof=said, error=error, code="interrupted")
    if proof.cause == "ward" and reason is None:
        error = "The shell was ended because the program that held its terminal was killed."
        return Receipt(Outcome.FAILED, value=value, proof=said, error=error, code="interrupted")
    why = "its host" if reason is None else reason.value
    return Receipt(Outcome.FAILED, value=value, proof=said, error=f"The shell was stopped ({why}).", code="stopped")


def _shell_of(run_id: str) -> Shell:
    shells = Shell.objects.select_related("run__created_by", "tenant", "target")
    shell = shells.filter(run=parse_id("run", run_id)).first()
    if shell is None:
        raise ToolError("This run has no shell.", code="no_shell")
    return shell


def _plan(shell: Shell, workspace: Path, allowed: Mapping[str, str], folder: str) -> Plan:
    """Read what is started. Raises: ToolError when the target is not for this person any more."""
    actor = actor_for(shell.run.created_by, shell.tenant)
    if shell.target is not None and (actor is None or not lets_in(shell.target, actor)):
        raise ToolError("This target is not open to you any more.", code="target_closed")
    key = text_id("shell", shell.pk)
    record_path = _record_path(shell)
    if is_remote(shell):
        return remote_plan(shell, key, folder, build_environment(allowed, home=workspace), record_path)
    user = shell_user()
    home = workspace if user is None else home_of(workspace, user)
    marks = new_id().hex if shell.opened_by == "agent" else None
    return Plan(
        key=key,
        argv=[_bash(), "-l"] if marks else _argv(shell),
        cwd=str(home),
        env=build_environment(allowed, home=home)
        | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "SHELL": _login_shell()}
        | ({} if marks is None else marking_environment(marks))
        | ({} if user is None else {"USER": settings.SHELL_USER, "LOGNAME": settings.SHELL_USER}),
        rows=shell.rows,
        cols=shell.cols,
        grace_seconds=limits().term_grace_seconds,
        adopt_seconds=limits().adopt_seconds,
        limits=_limits(shell.target, is_own_user=user is not None),
        user=user,
        record_path=record_path,
        marks=marks,
    )


def _bash() -> str:
    """Return the one shell that says where its commands begin and end, which an agent has to know."""
    if not os.path.exists(SHELLS[0]):
        raise ToolError(f"An agent's shell needs {SHELLS[0]}, and this machine has none.", code="no_bash")
    return SHELLS[0]


def _record_path(shell: Shell) -> str | None:
    """Return where it is recorded, if at all. Only we may read there: not who the shell runs as."""
    if not shell.is_recorded:
        return None
    path = recording_path(shell.pk)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(path)


def _argv(shell: Shell) -> list[str]:
    return ["/bin/sh", "-c", shell.command] if shell.command else [_login_shell(), "-l"]


def _login_shell() -> str:
    return next(path for path in SHELLS if os.path.exists(path))


def _limits(target: ShellTarget | None, *, is_own_user: bool) -> dict[str, int]:
    wanted = {
        "memory_mb": MEMORY_MB if target is None else target.memory_mb or MEMORY_MB,
        "processes": (target and target.processes) or (PROCESSES if is_own_user else None),
        "open_files": OPEN_FILES if target is None else target.open_files or OPEN_FILES,
        "cpu_seconds": None if target is None else target.cpu_seconds,
    }
    return {name: value for name, value in wanted.items() if value}
