"""A call that an older claim has begun and that lives on: this claim waits for its end as if it had begun it."""

from uuid import uuid4

from runs.decisions.core import Row
from runs.execution.claim import Claim
from runs.ids import text_id
from tools.call import ToolCall
from tools.effects import JSON, Receipt
from tools.errors import OutcomeUnknown
from tools.permit import Permit
from tools.spec import AdoptFunction


async def adopt(claim: Claim, function: AdoptFunction, row: Row) -> Receipt | None:
    """Return the receipt of the operation in this row; None where nobody can tell.

    Raises: ScopeCancelled when the claim is lost or leaves; the call then waits for the next one.
    """
    call = ToolCall(
        run_id=claim.run_text,
        step_id=text_id("step", row["step_id"]),
        tenant_id=claim.run["tenant_id"].hex,
        user_id=str(claim.run["created_by_id"]),
        operation_key=row["key"],
        fence=claim.held.fence,
        permit=Permit(str(uuid4()), row["key"], claim.held.fence, 0.0),  # void: nothing may begin here
        scope=claim.scope,
        workspace=claim.workspace,
        settings=claim.hands.settings,
        processes=claim.hands.processes,
        progress=_say_nothing,
        terminals=claim.hands.terminals,
    )
    try:
        return await function(call, row["arguments"])
    except OutcomeUnknown:
        return None


async def _say_nothing(data: JSON) -> None:
    """What the call has to show goes to whoever watches it, not through its claim."""
