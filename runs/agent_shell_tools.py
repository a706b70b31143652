"""What an agent does in its shell, as tools: run a command, type keys, read the screen. `ctx.shell` calls them.

A command is typed once: its operation key is the line's id, and the terminal remembers lines. So the next claim adopts
it: it finds the line and waits for its end, or proves that it never went in.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from runs.agent_shells import Place, Standing, find_place, may_type, read_standing
from runs.database import read_in_thread
from runs.decisions.shells import RUN_COMMAND
from tools.call import ToolCall
from tools.effects import JSON, Effect, Outcome, Receipt
from tools.errors import OutcomeUnknown, ToolError
from tools.processes.terminals.commands import FROM_NOW, Command
from tools.processes.terminals.link import NoHost, Refused, Terminal
from tools.processes.terminals.marks import as_line
from tools.processes.terminals.screen import NoScreen, last_text
from tools.scope import CancelReason, ScopeCancelled, boottime
from tools.tool import tool

MOST_COMMAND = MOST_KEYS = 16_000
MOST_SECONDS = 86_400.0
LONGEST_SECONDS = 8 * 86_400.0  # while a person has the shell, no time-out ends a command of the agent's
TYPING_SECONDS = 30.0
POLL_SECONDS = 0.25
PROMPT_SECONDS = 5.0  # from Ctrl-C to the prompt
AGAIN_SECONDS = 2.0  # until Ctrl-C is typed again
LETS_GO = (CancelReason.LOST, CancelReason.DRAIN)

type Path = Annotated[str, Field(max_length=200)]


async def _adopt(call: ToolCall, arguments: Mapping[str, Any]) -> Receipt | None:
    """Follow the command that an older claim has typed, or prove that it has not, and that nobody will."""
    place = await read_in_thread(find_place, call.run_id, arguments["shell"])
    return await _follow(call, place, arguments)


@tool(
    effect=Effect.WRITE, look_up=None, adopt=_adopt, process=True, name=RUN_COMMAND, timeout_seconds=LONGEST_SECONDS,
    request_timeout_seconds=TYPING_SECONDS,
)  # fmt: skip
async def run_in_shell(
    call: ToolCall,
    shell: Path,
    command: Annotated[str, Field(max_length=MOST_COMMAND)],
    timeout_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 120.0,
) -> Receipt:
    """Type a command into a shell that this run has opened, and wait for its end."""
    place = await read_in_thread(find_place, call.run_id, shell)
    try:
        line = as_line(command)
    except ValueError as error:
        raise ToolError("A command cannot hold a NUL.", code="bad_command") from error
    async with _attached(call, place, FROM_NOW) as terminal:
        typed = Command(terminal, call.operation_key)
        if not await _type(call, place, typed, terminal, text=line):
            return _not_now()
        if (receipt := await _until_end(call, place, typed, terminal, timeout_seconds)) is not None:
            return receipt
    found = await _follow(call, place, {"timeout_seconds": timeout_seconds})
    if found is None or found.code == "not_happened":
        raise OutcomeUnknown("The terminal does not know what became of the command.")
    return found


async def _adopt_keys(call: ToolCall, arguments: Mapping[str, Any]) -> Receipt | None:
    """Say whether the keys that an older claim had typed have gone in; nobody types them any more."""
    place = await read_in_thread(find_place, call.run_id, arguments["shell"])
    try:
        async with _attached(call, place, FROM_NOW) as terminal:
            if Command(terminal, call.operation_key).line is not None:
                return Receipt(Outcome.SUCCEEDED, proof="typed")
            return _never_typed()
    except ToolError:
        return None  # the terminal is gone, and with it what it knew


@tool(effect=Effect.WRITE, look_up=None, adopt=_adopt_keys, name="shell_type", timeout_seconds=TYPING_SECONDS)
async def type_in_shell(call: ToolCall, shell: Path, text: Annotated[str, Field(max_length=MOST_KEYS)]) -> Receipt:
    """Type keys into a shell that this run has opened, whatever runs there."""
    place = await read_in_thread(find_place, call.run_id, shell)
    async with _attached(call, place, FROM_NOW) as terminal:
        typed = Command(terminal, call.operation_key)
        if not await _type(call, place, typed, terminal, text=text, keys=True):
            return _not_now()
        return Receipt(Outcome.SUCCEEDED, proof="typed")


@tool(effect=Effect.READ, name="shell_screen", timeout_seconds=10.0)
async def read_screen(call: ToolCall, shell: Path) -> str:
    """Read what stands on the screen of a shell that this run has opened."""
    place = await read_in_thread(find_place, call.run_id, shell)
    call.open()
    if call.terminals is None:
        raise ToolError("This worker has no terminals.", code="no_terminals")
    try:
        return await last_text(call.terminals.folder, place.key)
    except NoScreen as error:
        raise ToolError(str(error), code="no_screen", retryable=True) from error


class _attached:
    """Attach as this claim's agent. Raises: ToolError without a terminal; ScopeCancelled behind a newer claim."""

    def __init__(self, call: ToolCall, place: Place, begin: int) -> None:
        if call.terminals is None:
            raise ToolError("This worker has no terminals.", code="no_terminals")
        hello = {"role": "agent", "fence": call.fence, "line": call.operation_key, "from": begin}
        self._attaching = Terminal.attach(call.terminals.folder, place.key, **hello)

    async def __aenter__(self) -> Terminal:
        try:
            return await self._attaching.__aenter__()
        except NoHost as error:
            raise ToolError("The shell has ended.", code="shell_ended") from error
        except Refused:
            raise ScopeCancelled(CancelReason.LOST) from None

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._attaching.__aexit__(*raised)


def _never_typed() -> Receipt:
    return Receipt(Outcome.FAILED, proof="not typed", error="It was never typed.", code="not_happened")


def _not_now() -> Receipt:
    """Nothing went in: it is asked for again."""
    error = "Somebody else types, or a command runs."
    return Receipt(Outcome.FAILED, proof="nothing was typed", error=error, code="permit_expired")


async def _type(
    call: ToolCall, place: Place, typed: Command, terminal: Terminal, *, text: str, keys: bool = False
) -> bool:
    """Have it typed, if the database says so now. False: nothing goes in, now or later. Raises: OutcomeUnknown."""
    asked = await read_in_thread(may_type, place, call.fence)
    if not asked.may:
        return False
    until = call.permit.void_at
    call.open()
    terminal.line(call.operation_key, text=text, keys=keys, until=until, over=asked.over)
    while typed.line is None and not typed.is_cut_off:
        if typed.answer in ("busy", "taken", "void", "shut"):
            return False
        if typed.answer == "soon" and boottime() > until + POLL_SECONDS:
            return False  # no prompt came in time: what comes now is too late for it
        await typed.read(POLL_SECONDS)
    return True


async def _follow(call: ToolCall, place: Place, arguments: Mapping[str, Any]) -> Receipt | None:
    """Follow the line of this call, if it has gone in. Raises: ScopeCancelled, OutcomeUnknown."""
    while True:
        try:
            async with _attached(call, place, 0) as terminal:
                typed = Command(terminal, call.operation_key)
                if typed.line is None:  # and behind our fence nobody can have it typed any more
                    return _never_typed()
                receipt = await _until_end(call, place, typed, terminal, arguments["timeout_seconds"])
        except ToolError:
            receipt = _judge_end(await read_in_thread(read_standing, place))
        if receipt is not None:
            return receipt
        if call.scope.reason in LETS_GO:
            raise ScopeCancelled(call.scope.reason)
        await asyncio.sleep(POLL_SECONDS)


async def _until_end(
    call: ToolCall, place: Place, typed: Command, terminal: Terminal, timeout_seconds: float
) -> Receipt | None:
    """Wait for the end of the command, or of the shell; None where the connection has ended without either."""
    interrupted_at = typed_again_at = None
    while not typed.is_done:
        if typed.line is not None and typed.line["is_cut"]:
            raise OutcomeUnknown("Somebody has taken the shell over while the command was being typed.")
        if typed.is_cut_off:
            return _shell_ended(typed.kept.text()) if (typed.proof or {}).get("gone") else None
        if call.scope.reason in LETS_GO:
            raise ScopeCancelled(call.scope.reason)
        now = boottime()
        if interrupted_at is not None and now > interrupted_at + PROMPT_SECONDS:
            return _done(typed, timed_out=True)
        is_late = typed.line is not None and now > typed.line["at"] + timeout_seconds
        if is_late and call.scope.reason is None and now > (typed_again_at or 0.0) + AGAIN_SECONDS:
            asked = await read_in_thread(may_type, place, call.fence)
            if asked.may:
                terminal.line(call.operation_key, interrupt=True, until=now + AGAIN_SECONDS, over=asked.over)
                interrupted_at = interrupted_at or now
            typed_again_at = now
        await typed.read(POLL_SECONDS)
    return _done(typed, timed_out=interrupted_at is not None)


def _done(typed: Command, *, timed_out: bool) -> Receipt:
    line = typed.line or {}
    value: dict[str, JSON] = {
        "output": typed.kept.text(), "exit_code": line.get("code"), "timed_out": timed_out,
        "left_out_bytes": typed.kept.left_out, "is_running": not typed.is_done,
    }  # fmt: skip
    return Receipt(Outcome.SUCCEEDED, value=value, proof="prompt" if typed.is_done else "typed")


def _shell_ended(output: str) -> Receipt:
    error = "The shell has ended, and the command with it."
    value: dict[str, JSON] = {"output": output}
    return Receipt(Outcome.FAILED, value=value, proof="process tree empty", error=error, code="shell_ended")


def _judge_end(standing: Standing) -> Receipt | None:
    """Judge a command whose terminal does not answer; None: it may do so yet. Raises: OutcomeUnknown."""
    if standing.is_lost:
        raise OutcomeUnknown("The terminal is gone, and nobody has seen its end: something of it may still run.")
    return _shell_ended("") if standing.is_gone else None
