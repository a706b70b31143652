"""The dispatch gate as a step sees it: a committed permit, or a reason why nothing may begin.

Adapters get a ToolCall, a ToolCall needs a Permit, and permits are made here only, from a committed dispatch.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from runs.clock import clock
from runs.conf import limits
from runs.decisions.cancels import request_cancel
from runs.decisions.dispatch import Dispatched, InOperation, OperationCall, Refused, StepCall, dispatch
from runs.decisions.policy import BUDGET_SPENT, RIGHTS_LOST
from runs.decisions.steps import OperationOutcome, finish_step
from runs.execution.branches import For, Parked
from runs.execution.claim import Claim
from runs.states import CancelReason as RecordedReason
from tools.permit import Permit
from tools.scope import CancelReason, ScopeCancelled, boottime

# A loop that was busy between the dispatch and the call finds its permit void: nothing was sent, so it asks again.
LATE_TRIES = 5

LANDED_OPERATION = """
select id, step_id from runs_operation where key = %(key)s and nonce = %(nonce)s and state = 'dispatched'"""
LANDED_STEP = """
select id from runs_step where stream_id = %(stream)s and path = %(path)s and state = 'open' and fence = %(fence)s"""


@dataclass(frozen=True, slots=True)
class Begun:
    """The call may begin. began_at: CLOCK_BOOTTIME before the dispatch was sent; dispatched_at: the same in UTC."""

    step_id: UUID
    operation_id: UUID | None
    permit: Permit
    began_at: float
    dispatched_at: datetime


async def begin(
    claim: Claim,
    step: StepCall,
    *,
    key: str,
    operation: OperationCall | None = None,
    message_id: UUID | None = None,
    label: str | None = None,
    shown: dict[str, Any] | None = None,
) -> Begun | InOperation:
    """Ask the database whether this call may begin, and record that it does.

    Raises: ScopeCancelled after a cancel, the deadline or a lost fence; Unwind when an operation is unknown.
    """
    nonce, began_at, dispatched_at = uuid4(), boottime(), clock.now()
    held = claim.held

    async def landed() -> Dispatched | None:
        if operation is not None:
            found = await claim.fetch(LANDED_OPERATION, key=key, nonce=nonce)
            return Dispatched(found[0]["step_id"], found[0]["id"]) if found else None
        # Only this claim begins steps at its paths, so an open one with our fence is ours.
        stream = claim.origin.stream_id
        found = await claim.fetch(LANDED_STEP, stream=stream, path=step.path, fence=held.fence)
        return Dispatched(found[0]["id"], None) if found else None

    asking = claim.start_call(
        claim.decide(
            lambda: dispatch(
                run_id=claim.origin.run_id,
                fence=held.fence,
                worker=claim.hands.worker,
                step=step,
                nonce=nonce,
                operation=operation,
                message_id=message_id,
                label=label,
                shown=shown,
                origin=claim.origin,
            ),
            landed=landed,
        )
    )
    try:
        answer = await asyncio.shield(asking)
    except asyncio.CancelledError:
        if claim.scope.reason is None:  # the agent's own timeout: what was begun for it must not stay open
            claim.start_call(_give_back(claim, asking))
        raise
    if isinstance(answer, InOperation):
        return answer
    if isinstance(answer, Refused):
        await refused(claim, answer.reason)
        raise AssertionError("a refused step never goes on")
    void_at = min(began_at + limits().permit_seconds, held.believed_until)
    permit = Permit(str(nonce), key, held.fence, void_at)
    return Begun(answer.step_id, answer.operation_id, permit, began_at, dispatched_at)


async def _give_back(claim: Claim, asking: "asyncio.Task[Dispatched | Refused | InOperation]") -> None:
    """Close a step whose permit nobody will use."""
    answer = await asking
    if not isinstance(answer, Dispatched):
        return
    outcome = None
    if answer.operation_id is not None:
        receipt = {"proof": "nothing was sent", "error": "The agent stopped waiting.", "code": "permit_expired"}
        outcome = OperationOutcome(state="refuted", receipt=receipt, gave_up=True)
    error = {"code": "abandoned", "message": "The agent stopped waiting."}
    await claim.decide(
        lambda: finish_step(
            run_id=claim.origin.run_id,
            fence=claim.held.fence,
            step_id=answer.step_id,
            state="abandoned",
            error=error,
            outcome=outcome,
            reason="error",
        )
    )


async def refused(claim: Claim, reason: str) -> None:
    """Turn a refusal into what the agent has to see; never returns. Raises: ScopeCancelled, Unwind."""
    if reason in ("lost", "not_running"):
        claim.lost()
    if reason == "unknown_open":
        claim.has_unknown = True
        await claim.branches.park(Parked(For.VERDICT))
    if reason in NOTES:
        await _stop_for_policy(claim, NOTES[reason])
        reason = "cancel"
    if reason == "cancel":
        claim.held.should_look.set()  # the row says who asked and why; until then we only know that nothing begins
        raise ScopeCancelled(await claim.scope.wait_ended())
    claim.scope.cancel(CancelReason.DEADLINE)
    raise ScopeCancelled(CancelReason.DEADLINE)


NOTES = {"rights": RIGHTS_LOST, "budget": BUDGET_SPENT}


async def _stop_for_policy(claim: Claim, note: str) -> None:
    """Ask the whole tree to stop: a right or a budget is never a child's own."""
    root = claim.run["root_id"] or claim.origin.run_id
    answer = await claim.decide(
        lambda: request_cancel(run_id=root, reason=RecordedReason.POLICY, note=note, overdue_only=True)
    )
    if answer is None:  # given back a moment later: the next claim goes on from here
        claim.lost()


def operation_key(claim: Claim, step: StepCall) -> str:
    """Return the key that stays the same for every try of this call: run, call path, digest of the arguments.

    In a retry a call that was done again has another one (`…#redo-n`).
    """
    return claim.history.key_for(f"{claim.run_text}:{step.path}:{step.digest[:32]}")
