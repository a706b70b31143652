"""A child run as a step: begin it, wait for its end without a worker, and return what it brought."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from runs.agents.errors import ChildFailed
from runs.agents.registry import get_agent
from runs.conf import limits
from runs.decisions.cancels import request_cancel
from runs.decisions.children import NotBorn, Spawned, spawn
from runs.decisions.creation import NewRun
from runs.decisions.dispatch import Refused, StepCall
from runs.decisions.shells import NewShell
from runs.errors import OutliveError
from runs.execution.branches import For, Parked
from runs.execution.claim import Claim
from runs.execution.gate import refused
from runs.execution.history import in_order, step_call
from runs.execution.reuse import find_stored
from runs.inputs import check_title
from runs.states import CancelReason, StepState
from tools.effects import JSON

LANDED = """
select s.id as step_id, s.error, c.id as child_id from runs_step s left join runs_run c on c.parent_step_id = s.id
where s.stream_id = %(stream)s and s.path = %(path)s and s.fence = %(fence)s"""
CHILD_OF = "select id from runs_run where parent_step_id = %(step)s"
OPEN_CHILDREN = "select id from runs_run where parent_id = %(run)s and terminal_at is null order by id"
OPEN_SHELLS = """
select r.id from runs_run r join runs_shell h on h.run_id = r.id
where r.parent_id = %(run)s and r.terminal_at is null order by r.id"""
# How often a run that can do nothing else looks whether its children have ended; a bell comes earlier.
CHILD_POLL_SECONDS = 0.25


class Ended(NamedTuple):
    """What a child's step has come to. is_in_doubt: the child has ended, and nobody knows yet how."""

    state: StepState
    value: Any = None
    error: dict[str, Any] = {}
    is_in_doubt: bool = False


async def spawn_child(
    claim: Claim,
    agent: str,
    given: Mapping[str, Any] | BaseModel | None,
    title: str | None,
    deadline_seconds: float | None,
) -> JSON:
    """Do the step, or return (or raise) what it brought before. Raises: ChildFailed, ScopeCancelled, Unwind."""
    path = claim.branches.next_path()
    try:
        child = _describe(claim, agent, given, title, deadline_seconds)
    except OutliveError as refusal:  # no step: nothing was begun, and the next walk refuses it again
        raise ChildFailed(agent, refusal.code, refusal.message) from refusal
    step = step_call(path, "child", child.agent, {"agent": child.agent, "input": child.input})
    stored = await find_stored(claim, step)
    if stored is None:
        await claim.pass_boundary()
        ended = await _until_it_ends(claim, await _begin(claim, step, child))
    elif stored.state is StepState.OPEN and not stored.is_in_doubt:
        ended = await _until_it_ends(claim, stored.id)
    else:
        ended = Ended(stored.state, stored.value, stored.error, stored.is_in_doubt)
    if ended.is_in_doubt:
        claim.has_unknown = True  # before any sibling can pass its next boundary
        await claim.branches.park(Parked(For.VERDICT))
    if ended.state is StepState.FAILED:
        code, message = ended.error.get("code", "child_failed"), ended.error.get("message", "")
        raise ChildFailed(agent, code, message, ended.error.get("child_id"))
    brought: JSON = in_order(ended.value)
    return brought


def _describe(
    claim: Claim,
    agent: str,
    given: Mapping[str, Any] | BaseModel | None,
    title: str | None,
    deadline_seconds: float | None,
) -> NewRun:
    """Say what to begin. Raises: OutliveError when there is no such agent, or it does not take this input."""
    spec = get_agent(agent)
    plain = given.model_dump(mode="json", by_alias=True) if isinstance(given, BaseModel) else dict(given or {})
    checked = spec.normal_input(plain)
    return NewRun(
        tenant_id=claim.run["tenant_id"],
        user_id=claim.run["created_by_id"],
        agent=spec.name,
        title=check_title(title, checked, spec.name),
        input=checked,
        metadata=claim.run["metadata"] or {},
        deadline_seconds=deadline_seconds or spec.deadline_seconds or limits().default_deadline_seconds,
        on_disconnect="continue",  # its page is its parent's, whose own policy stops the tree
        grace_seconds=None,
        idempotency_key=None,
        idempotency_digest=None,
    )


async def _landed(claim: Claim, step: StepCall) -> Spawned | NotBorn | None:
    """Read what became of a spawn whose answer was lost; None: nothing."""
    rows = await claim.fetch(LANDED, stream=claim.origin.stream_id, path=step.path, fence=claim.held.fence)
    if not rows:
        return None
    found = rows[0]
    return NotBorn(found["error"]) if found["child_id"] is None else Spawned(found["step_id"], found["child_id"])


async def begin_child(
    claim: Claim, step: StepCall, child: NewRun, shell: NewShell | None = None
) -> Spawned | NotBorn | Refused:
    """Begin a child run, with its shell if it is one. Raises: ScopeCancelled, Unwind where it may not begin."""
    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: spawn(
                run_id=claim.origin.run_id,
                fence=claim.held.fence,
                root_id=claim.run["root_id"],
                step=step,
                child=child,
                shell=shell,
            ),
            landed=lambda: _landed(claim, step),
        )
        if isinstance(answer, Refused):
            await refused(claim, answer.reason)
    return answer


async def _begin(claim: Claim, step: StepCall, child: NewRun) -> UUID:
    answer = await begin_child(claim, step, child)
    if isinstance(answer, NotBorn):
        raise ChildFailed(step.name, answer.error["code"], answer.error["message"])
    assert isinstance(answer, Spawned)  # a refusal has raised
    return answer.step_id


async def _until_it_ends(claim: Claim, step_id: UUID) -> Ended:
    try:
        state, value, error, is_in_doubt = await claim.branches.park(Parked(For.CHILD, child_step_id=step_id))
    except asyncio.CancelledError:
        if claim.scope.reason is None:  # the agent's own timeout: what it began must not go on without it
            claim.start_call(_stop_child_of(claim, step_id))
        raise
    return Ended(StepState(state), value, error, is_in_doubt)


async def _stop_child_of(claim: Claim, step_id: UUID) -> None:
    for row in await claim.fetch(CHILD_OF, step=step_id):
        await _stop(claim, row["id"])


async def _stop(claim: Claim, child_id: UUID) -> None:
    note = f"{claim.run_text} stopped waiting for it."
    await claim.decide(lambda: request_cancel(run_id=child_id, reason=CancelReason.PARENT, note=note))


async def leave_no_child(claim: Claim) -> None:
    """Stop the children that an agent has left behind: no run ends while a child of it works (RULES H14)."""
    for row in await claim.fetch(OPEN_CHILDREN, run=claim.origin.run_id):
        await _stop(claim, row["id"])


async def leave_no_shell(claim: Claim) -> None:
    """Stop the shells of an agent that goes no further: unlike other children they do not end by themselves."""
    for row in await claim.fetch(OPEN_SHELLS, run=claim.origin.run_id):
        await _stop(claim, row["id"])


async def children_may_have_ended(claim: Claim) -> None:
    """Wait for a bell or a moment; nothing is held back by a bell that was lost."""
    try:
        async with asyncio.timeout(CHILD_POLL_SECONDS):
            await claim.held.should_look.wait()
    except TimeoutError:
        return
    claim.held.should_look.clear()
