"""A tool call as a durable step: checked arguments, the gate, the call, its receipt."""

import asyncio
from collections.abc import Mapping
from typing import Any

from runs.agents.errors import ToolFailed
from runs.decisions.dispatch import InOperation, OperationCall, StepCall
from runs.execution import receipts
from runs.execution.branches import For, Parked
from runs.execution.claim import Claim
from runs.execution.gate import begin, operation_key
from runs.execution.history import StoredStep, in_order, step_call
from runs.execution.inherited import inherit
from runs.execution.tool_call import DispatchedCall, Known
from runs.failpoints import hit
from runs.states import StepState
from tools.effects import JSON, Effect, Outcome
from tools.errors import ToolError
from tools.registry import get_tool
from tools.spec import ToolSpec


async def call_tool(claim: Claim, tool: ToolSpec | str, arguments: Mapping[str, Any]) -> JSON:
    """Do the step, or return (or raise) what it brought before. Raises: ToolFailed, ScopeCancelled, Unwind."""
    path = claim.branches.next_path()
    try:
        spec = get_tool(tool) if isinstance(tool, str) else tool
        checked = spec.validate(arguments)
    except ToolError as error:  # no step: nothing was begun, and the next walk refuses it again
        name = tool if isinstance(tool, str) else tool.name
        raise ToolFailed(name, error.code, error.message, retryable=error.retryable) from error
    step = step_call(path, "tool", spec.name, checked, effect=spec.effect.value)
    stored = claim.history.find(step)
    if stored is not None and stored.state is StepState.FINISHED:
        value: JSON = stored.value
        return value
    if stored is not None and stored.state is StepState.FAILED:
        raise receipts.from_error(spec.name, stored.error)
    known = await _until_known(claim, spec, step, stored, checked)
    if known.receipt.outcome is Outcome.SUCCEEDED:
        fresh: JSON = in_order(known.receipt.value)
        return fresh
    raise receipts.failure(spec.name, known.receipt)


async def _until_known(
    claim: Claim, spec: ToolSpec, step: StepCall, stored: StoredStep | None, arguments: dict[str, JSON]
) -> Known:
    while True:
        await claim.pass_boundary()
        await hit("before_dispatch")
        with claim.branches.step_in_flight():
            known = await _dispatch(claim, spec, step, stored, arguments)
            if known is not None and known.is_unknown:
                claim.has_unknown = True  # before any sibling can pass its next boundary
        if known is None:
            continue  # an older dispatch is proven not to have happened: this one is the first
        if known.is_unknown:
            await claim.branches.park(Parked(For.VERDICT))
        return known


async def _dispatch(
    claim: Claim, spec: ToolSpec, step: StepCall, stored: StoredStep | None, arguments: dict[str, JSON]
) -> Known | None:
    key = operation_key(claim, step)
    begun = await begin(claim, step, key=key, operation=_operation(claim, spec, key), shown=spec.redacted(arguments))
    if isinstance(begun, InOperation):
        return await inherit(claim, spec, step, stored, begun)
    call = DispatchedCall(claim, spec, arguments, begun, key)
    if begun.operation_id is not None:
        known: Known = await asyncio.shield(claim.start_call(call.run()))
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
