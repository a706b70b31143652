"""`ctx.shell`: a shell as a child run that is begun and not waited for, and the steps of an agent in it."""

import asyncio
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from runs import shells
from runs.access import actor_for
from runs.agent_shell_tools import read_screen, run_in_shell, type_in_shell
from runs.agent_shells import PLACE, STANDING, Place, Standing, judge
from runs.agents.errors import ChildFailed, ToolFailed
from runs.agents.registry import get_agent
from runs.agents.shell import CommandEnd
from runs.creating import SHELL
from runs.database import read_in_thread
from runs.decisions.cancels import request_cancel
from runs.decisions.claims import Lost
from runs.decisions.creation import NewRun
from runs.decisions.shells import NewShell
from runs.decisions.steps import finish_step
from runs.errors import InvalidInput, NotAllowed, OutliveError
from runs.execution.child_step import begin_child
from runs.execution.claim import Claim
from runs.execution.history import step_call
from runs.execution.tool_step import call_tool
from runs.ids import text_id
from runs.inputs import check_title
from runs.models import Tenant
from runs.states import CancelReason, StepState
from tools.processes.terminals.commands import FROM_NOW, Command
from tools.processes.terminals.link import NoHost, Terminal
from tools.processes.terminals.link import Refused as Displaced
from tools.scope import boottime

PROMPT_SECONDS = 60.0  # from the terminal's start to its first prompt
POLL_SECONDS = 0.1
WAIT_SECONDS = 0.5  # between looks whether a shell is the agent's again
STEP = "select id, state, error, result from runs_step where stream_id = %(stream)s and path = %(path)s"


async def open_shell(claim: Claim, target: str, rows: int, cols: int, title: str | None) -> "AgentShell":
    """Open a shell, or return the one of this step. Raises: ChildFailed, ScopeCancelled, Unwind."""
    path = claim.branches.next_path()
    asked = {"target": target, "rows": rows, "cols": cols}
    step = step_call(path, "child", SHELL, asked)
    stored = claim.history.find(step)
    if stored is None:
        await claim.pass_boundary()
        try:
            child, shell = await read_in_thread(_describe, claim, asked, title)
        except OutliveError as refusal:  # no step: nothing was begun, and the next walk refuses it again
            raise ChildFailed(SHELL, refusal.code, refusal.message) from refusal
        await begin_child(claim, step, child, shell)
    if stored is None or stored.state is StepState.OPEN:
        await _until_it_answers(claim, path)
    rows_ = await claim.fetch(STEP, stream=claim.origin.stream_id, path=path)
    error, value = rows_[0]["error"], (rows_[0]["result"] or {}).get("value") or {}
    if rows_[0]["state"] != StepState.FINISHED or "shell_id" not in value:
        known = error or {"code": "shell_ended", "message": "The shell ended before its first prompt."}
        raise ChildFailed(SHELL, known["code"], known["message"], known.get("child_id"))
    return AgentShell(claim, path, value["shell_id"], value["run_id"])


def _describe(claim: Claim, asked: dict[str, Any], title: str | None) -> tuple[NewRun, NewShell]:
    """Say what to begin. Raises: OutliveError where the person may not open it, or an agent cannot use it."""
    user = get_user_model().objects.get(pk=claim.run["created_by_id"])
    actor = actor_for(user, Tenant.objects.get(pk=claim.run["tenant_id"]))
    if actor is None:
        raise NotAllowed("shell.open")
    place = shells.find_target(actor, asked["target"])
    if place is not None and (place.kind != "local" or place.commands):
        raise InvalidInput("target", "An agent's shell needs bash on this machine, and this target offers no such one.")
    spec = get_agent(SHELL)
    checked = spec.normal_input(asked)
    child = NewRun(
        tenant_id=claim.run["tenant_id"],
        user_id=claim.run["created_by_id"],
        agent=spec.name,
        title=check_title(title, checked, asked["target"]),
        input=checked,
        metadata=claim.run["metadata"] or {},
        deadline_seconds=spec.deadline_seconds or shells.MOST_KEEP_SECONDS,  # the parent's is earlier
        on_disconnect="continue",  # its page is its parent's, whose own policy stops the tree
        grace_seconds=None,
        idempotency_key=None,
        idempotency_digest=None,
    )
    size: dict[str, Any] = {"rows": checked["rows"], "cols": checked["cols"]}
    return child, NewShell(None if place is None else place.pk, "", opened_by="agent", is_recorded=False, **size)


async def _until_it_answers(claim: Claim, path: str) -> None:
    """Wait for the first prompt, and end the step with it; the end of the shell ends the step as well."""
    give_up_at: float | None = None
    while True:
        await claim.pass_boundary()
        step = (await claim.fetch(STEP, stream=claim.origin.stream_id, path=path))[0]
        if step["state"] != StepState.OPEN:
            return
        rows = await claim.fetch(PLACE, parent=claim.origin.run_id, path=path)
        place = Place(**rows[0])
        state = await _state_of(claim, place)
        if state == "ready":
            value = {"shell_id": place.key, "run_id": text_id("run", place.run)}
            return await _finish(claim, step["id"], state="finished", result=value)
        if state is not None and give_up_at is None:
            give_up_at = boottime() + PROMPT_SECONDS
        if state == "unmarked" or (give_up_at is not None and boottime() > give_up_at):
            await _stop(claim, place)
            error = {"code": "no_prompt", "message": "The shell came to no prompt that this run can tell."}
            return await _finish(claim, step["id"], state="failed", error=error)
        await asyncio.sleep(POLL_SECONDS)


async def _finish(claim: Claim, step_id: UUID, **how: Any) -> None:
    answer = await claim.decide(
        lambda: finish_step(run_id=claim.origin.run_id, fence=claim.held.fence, step_id=step_id, **how)
    )
    if isinstance(answer, Lost):
        claim.lost()


async def _state_of(claim: Claim, place: Place) -> str | None:
    """Say where the terminal's shell stands (lines.py); None: there is no terminal."""
    if claim.hands.terminals is None:
        return None
    hello = {"role": "agent", "fence": claim.held.fence, "from": FROM_NOW}
    try:
        async with Terminal.attach(claim.hands.terminals.folder, place.key, **hello) as terminal:
            return Command(terminal, "").state
    except NoHost:
        return None
    except Displaced:
        claim.lost()


async def _stop(claim: Claim, place: Place) -> None:
    note = f"{claim.run_text} closed it."
    await claim.decide(lambda: request_cancel(run_id=place.run, reason=CancelReason.PARENT, note=note))


class AgentShell:
    """The shell of one step, under one claim. Its docstrings are the Protocol's (runs.agents.shell)."""

    def __init__(self, claim: Claim, path: str, shell_id: str, run_id: str) -> None:
        self._claim, self._path = claim, path
        self.id, self.run_id = shell_id, run_id

    async def run(self, command: str, *, timeout_seconds: float = 120.0) -> CommandEnd:
        asked = {"shell": self._path, "command": command, "timeout_seconds": timeout_seconds}
        value: Any = await call_tool(self._claim, run_in_shell, asked, ready=self._until_prompt)
        if value["is_running"]:
            message = f"The command did not end by Ctrl-C, {timeout_seconds:g} s after it began, and still runs."
            raise ToolFailed(run_in_shell.name, "no_prompt", message)
        return CommandEnd(value["output"], value["exit_code"], value["timed_out"], value["left_out_bytes"])

    async def type(self, text: str) -> None:
        asked = {"shell": self._path, "text": text}
        await call_tool(self._claim, type_in_shell, asked, ready=self._until_ours)

    async def screen(self) -> str:
        return str(await call_tool(self._claim, read_screen, {"shell": self._path}))

    async def close(self) -> None:
        place = await self._place()
        await _stop(self._claim, place)
        while not (await self._standing(place)).is_over:
            await self._claim.pass_boundary()
            await asyncio.sleep(POLL_SECONDS)

    async def _place(self) -> Place:
        rows = await self._claim.fetch(PLACE, parent=self._claim.origin.run_id, path=self._path)
        return Place(**rows[0])

    async def _standing(self, place: Place) -> Standing:
        return judge((await self._claim.fetch(STANDING, shell=place.shell))[0])

    async def _until_ours(self) -> None:
        """Wait until nobody has taken it over. Raises: ToolFailed where it has ended."""
        place = await self._place()
        while (standing := await self._standing(place)).is_held and not standing.is_over:
            await self._claim.pass_boundary()
            await asyncio.sleep(WAIT_SECONDS)
        if standing.is_over:
            raise ToolFailed(run_in_shell.name, "shell_ended", "The shell has ended.")

    async def _until_prompt(self) -> None:
        """Wait until it is the agent's, and no command runs in it. Raises: ToolFailed where it has ended."""
        place = await self._place()
        while True:
            await self._until_ours()
            if await _state_of(self._claim, place) in ("ready", "typed", "unmarked"):
                return
            await self._claim.pass_boundary()
            await asyncio.sleep(POLL_SECONDS)
