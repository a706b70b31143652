"""The commands that undo a committed effect: ask for it, and decide one whose outcome nobody knows."""

from uuid import UUID

from django.utils.translation import gettext as _

from runs.access import Actor, display_name
from runs.agents.registry import load_agents
from runs.auditing import audit
from runs.database import decide
from runs.decisions import compensations
from runs.decisions.compensations import NotCompensated
from runs.errors import NotCompensable, NotFound, StaleVersion
from runs.ids import text_id
from runs.inputs import check_note, check_verdict
from runs.models import Compensation, Operation
from runs.states import OperationState
from tools.errors import ToolError
from tools.registry import get_tool


def can_compensate(operation: Operation) -> bool:
    """Say whether the tool offers to undo what it did, and this operation did something."""
    load_agents()
    try:
        spec = get_tool(operation.tool)
    except ToolError:
        return False
    is_committed = operation.state in (OperationState.SUCCEEDED, OperationState.CONFIRMED)
    return spec.compensate is not None and is_committed


def compensate_operation(*, actor: Actor, operation_id: UUID, version: int, note: str) -> Compensation:
    """Have a supervisor undo a committed effect, on record. It is an action of its own, and may fail or be unknown.

    Args: version: of the operation, as the actor read it.
    Raises: NotFound, NotAllowed, InvalidInput, StaleVersion, NotCompensable.
    """
    actor.require("operation.compensate")
    operation = Operation.objects.filter(pk=operation_id, run__tenant=actor.tenant).first()
    if operation is None:
        raise NotFound("operation")
    text = check_note(note, _("Write down why it is to be undone; the note stays with the operation."))
    if operation.state in (OperationState.SUCCEEDED, OperationState.CONFIRMED) and not can_compensate(operation):
        raise NotCompensable("cannot_compensate")
    made = decide(
        compensations.request(
            operation_id=operation_id, version=version, by=actor.user.pk, by_name=display_name(actor.user), note=text
        )
    )
    if isinstance(made, NotCompensated):
        raise _refusal(made)
    audit(
        actor, "operation.compensate", text_id("comp", made), {"operation": text_id("op", operation_id), "note": text}
    )
    return Compensation.objects.select_related("requested_by").get(pk=made)


def settle_compensation(*, actor: Actor, compensation_id: UUID, version: int, outcome: str, note: str) -> Compensation:
    """Decide an unknown compensation by a person's word: "happened" | "not_happened".

    Raises: NotFound, NotAllowed, InvalidInput, StaleVersion, NotCompensable when it is not unknown.
    """
    actor.require("operation.compensate")
    mine = Compensation.objects.filter(operation__run__tenant=actor.tenant)
    if not mine.filter(pk=compensation_id).exists():
        raise NotFound("compensation")
    happened, text = check_verdict(outcome, note)
    is_settled = decide(
        compensations.settle(
            compensation_id=compensation_id, version=version, happened=happened, by=actor.user.pk,
            by_name=display_name(actor.user), note=text,
        )
    )  # fmt: skip
    found = mine.select_related("requested_by", "settled_by").get(pk=compensation_id)
    if not is_settled:
        raise StaleVersion if found.version != version else NotCompensable("not_unknown")
    audit(actor, "compensation.settle", text_id("comp", compensation_id), {"outcome": outcome, "note": text})
    return found


def _refusal(refused: NotCompensated) -> Exception:
    if refused.reason == "missing":
        return NotFound("operation")
    if refused.reason == "stale":
        return StaleVersion()
    if refused.reason == "exists" and refused.compensation_id is not None:
        return NotCompensable("already_compensated", text_id("comp", refused.compensation_id))
    return NotCompensable("not_committed")
