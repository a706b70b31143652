"""A tool call as a durable step: checked arguments, the gate, the call, its receipt."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runs.agents.errors import ToolFailed
from runs.decisions.core import Fact
from runs.decisions.dispatch import InOperation, OperationCall, StepCall
from runs.execution import receipts
from runs.execution.back_off import back_off, tries_before
from runs.execution.branches import For, Parked
from runs.execution.claim import Claim
from runs.execution.earlier import StoredStep
from runs.execution.gate import LATE_TRIES, begin, operation_key
from runs.execution.history import in_order, step_call
from runs.execution.inherited import inherit
from runs.execution.reuse import find_stored
from runs.execution.tool_call import DispatchedCall, Known
from runs.failpoints import hit
from runs.states import StepState
from tools.effects import JSON, Effect, Outcome, Receipt
from tools.errors import ToolError
from tools.registry import get_tool
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)


type Ready = Callable[[], Awaitable[None]]


async def call_tool(
    claim: Claim, tool: ToolSpec | str, arguments: Mapping[str, Any], *, ready: Ready | None = None
) -> JSON:
    """Do the step, or return (or raise) what it brought before.

    Args: ready: waits until the call may make sense, before each dispatch; one that is under way is not waited for.
    Raises: ToolFailed, ScopeCancelled, Unwind.
    """
    path = claim.branches.next_path()
    try:
        spec = get_tool(tool) if isinstance(tool, str) else tool
        checked = spec.validate(arguments)
    except ToolError as error:  # no step: nothing was begun, and the next walk refuses it again
        name = tool if isinstance(tool, str) else tool.name
        raise ToolFailed(name, error.code, error.message, retryable=error.retryable) from error
    step = step_call(path, "tool", spec.name, checked, effect=spec.effect.value)
    stored = await find_stored(claim, step, lambda earlier: _told_again(claim, spec, step, earlier))
    if stored is not None and stored.state is StepState.FINISHED:
        value: JSON = stored.value
        return value
    tries = tries_before(claim.history, path, stored)
    while True:
        if stored is not None and stored.state is StepState.FAILED:
            refusal, stored = receipts.from_error(spec.name, stored.error), None
        else:
            tries += 1
            known = await _until_known(claim, spec, step, stored, checked, tries, ready)
            if known.receipt.outcome is Outcome.SUCCEEDED:
                fresh: JSON = in_order(known.receipt.value)
                return fresh
            refusal = receipts.failure(spec.name, known.receipt)
        if not refusal.retryable or tries >= spec.retry.tries:
            raise refusal
        await back_off(claim, path, tries, spec.retry.pause_seconds(tries))


def _told_again(claim: Claim, spec: ToolSpec, step: StepCall, earlier: StoredStep) -> list[Fact]:
    started = {"tool": spec.name, "effect": spec.effect.value, "arguments": spec.redacted(step.arguments)}
    if _operation(claim, spec, "") is not None:
        started["operation_key"] = operation_key(claim, step)
    known = Receipt(Outcome.SUCCEEDED, value=earlier.value, proof="earlier attempt")
    return [Fact("tool.started", started), Fact("tool.result", receipts.shown(known))]


async def _until_known(
    claim: Claim,
    spec: ToolSpec,
    step: StepCall,
    stored: StoredStep | None,
    arguments: dict[str, JSON],
    tries: int,
    ready: Ready | None,
) -> Known:
    late, is_under_way = 0, stored is not None and stored.state is StepState.OPEN
    while True:
        await claim.pass_boundary()
        if ready is not None and not is_under_way:
            await ready()
        is_under_way = False
        await hit("before_dispatch")
        with claim.branches.step_in_flight(lives_on=spec.adopt is not None):
            known = await _dispatch(claim, spec, step, stored, arguments, tries, may_come_again=late + 1 < LATE_TRIES)
            if known is not None and known.is_unknown:
                claim.has_unknown = True  # before any sibling can pass its next boundary
        if known is None:
            continue  # an older dispatch is proven not to have happened: this one is the first
        if known.is_unknown:
            await claim.branches.park(Parked(For.VERDICT))
        if known.is_late:
            late += 1
            logger.warning("tool.permit_late", extra={"run_id": claim.run_text, "tool": spec.name, "tries": late})
            continue
        return known


async def _dispatch(
    claim: Claim,
    spec: ToolSpec,
    step: StepCall,
    stored: StoredStep | None,
    arguments: dict[str, JSON],
    tries: int,
    *,
    may_come_again: bool,
) -> Known | None:
    key = operation_key(claim, step)
    begun = await begin(claim, step, key=key, operation=_operation(claim, spec, key), shown=spec.redacted(arguments))
    if isinstance(begun, InOperation):
        return await inherit(claim, spec, step, stored, begun)
    call = DispatchedCall(claim, spec, arguments, begun, key, tries, may_come_again)
    if begun.operation_id is not None:
        known: Known = await asyncio.shield(claim.start_call(call.run(), lives_on=spec.adopt is not None))
        return known
    try:
        return await call.run()
    except asyncio.CancelledError:
        # Not the run was stopped but this await: by an agent's own timeout. The call must not stay open.
        if claim.scope.reason is None:
            claim.start_call(call.abandon())
        raise


def _operation(claim: Claim, spec: ToolSpec, key: str) -> OperationCall | None:
    """Return the ledger's side of the call; plain reads have none."""
    if spec.effect is Effect.READ and not spec.process:
        return None
    return OperationCall(
        key=key,
        is_process=spec.process,
        can_look_up=spec.can_look_up(claim.hands.settings),
        request_bound_seconds=spec.request_timeout_seconds + spec.target_bound_seconds,
    )
