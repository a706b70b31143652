"""Sending what operators asked to undo. Taken by a guarded update, so of many supervisors one sends it, once."""

import asyncio
import logging
from typing import Any

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions import compensations
from runs.decisions.core import Row
from runs.execution.receipts import as_json
from runs.ids import text_id
from runs.states import OperationState
from runs.supervisor.behind import IN_TURN, Behind, act_on_each
from runs.tool_settings import tool_settings
from runs.unprivileged import command_user, make_workspace, workspaces
from tools.call import ToolCall
from tools.effects import JSON, Outcome, Receipt
from tools.errors import ToolError
from tools.permit import Permit
from tools.processes.host import ProcessHost
from tools.registry import all_tools, get_tool
from tools.scope import Scope, boottime
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)
# Beyond the tool's own time: for the answer's way into the database.
MARGIN_SECONDS = 30.0

# Of the tools that this supervisor knows; one that knows another takes what is its own.
INTENDED = """
select c.id, c.requested_at as due_at, o.tool from runs_compensation c join runs_operation o on o.id = c.operation_id
where c.state = 'intended' and o.tool = any(%(tools)s)"""
BATCH = 20
STATE_OF = {
    Outcome.SUCCEEDED: OperationState.SUCCEEDED,
    Outcome.FAILED: OperationState.FAILED,
    Outcome.UNKNOWN: OperationState.UNKNOWN,
}


def compensate_once(behind: Behind | None = None) -> int:
    """Send each compensation that waits; returns how many were taken.

    Args: behind: what the looks before failed at; that comes last.
    """
    memory = Behind() if behind is None else behind
    tools = [spec.name for spec in all_tools()]
    waiting = fetch(
        f"select o.* from ({INTENDED}) o {IN_TURN} limit {BATCH}",
        {"tools": tools, "behind": memory.of("compensation")},
    )
    return act_on_each("compensation", waiting, _compensate, memory)


def _compensate(row: Row) -> bool:
    compensation_id, spec = row["id"], get_tool(row["tool"])
    began = boottime()
    bound = spec.timeout_seconds + spec.target_bound_seconds + MARGIN_SECONDS
    taken = decide(compensations.begin(compensation_id=compensation_id, bound_seconds=bound))
    if taken is None:
        return False
    receipt = asyncio.run(_send(spec, taken, began))
    state = STATE_OF[receipt.outcome]
    decide(compensations.finish(compensation_id=compensation_id, state=state, receipt=as_json(receipt, stopped=False)))
    logger.info("compensation.finished", extra={"compensation": text_id("comp", compensation_id), "state": state.value})
    return True


async def _send(spec: ToolSpec, taken: dict[str, Any], began: float) -> Receipt:
    if spec.compensate is None:
        return Receipt(Outcome.FAILED, proof="nothing was sent", error="The tool cannot undo any more.",
                       code="cannot_compensate")  # fmt: skip
    try:
        user = command_user()
        workspace = make_workspace(workspaces(user) / taken["run_id"].hex, user)
    except ToolError as error:
        return Receipt(Outcome.FAILED, proof="nothing was sent", error=error.message, code=error.code)
    processes = ProcessHost()
    call = ToolCall(
        run_id=text_id("run", taken["run_id"]),
        step_id=text_id("step", taken["step_id"]),
        tenant_id=taken["tenant_id"].hex,
        user_id=str(taken["requested_by_id"]),
        operation_key=taken["key"],
        fence=0,
        permit=Permit(str(taken["id"]), taken["key"], 0, began + limits().permit_seconds),
        scope=Scope(),
        workspace=workspace,
        settings=tool_settings(),
        processes=processes,
        progress=_say_nothing,
        user=user,
    )
    done = taken["receipt"] or {}
    committed = Receipt(
        Outcome.SUCCEEDED, value=done.get("value"), proof=done.get("proof", ""), external_id=done.get("external_id")
    )
    try:
        return await spec.undo(call, taken["arguments"], committed)
    finally:
        await processes.close()


async def _say_nothing(data: JSON) -> None:
    """Nobody watches a compensation."""
