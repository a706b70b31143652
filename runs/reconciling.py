"""The commands about effects of which nobody knows whether they happened: ask the target again, and decide."""

from typing import Any
from uuid import UUID

from runs.access import Actor, display_name
from runs.auditing import audit
from runs.database import decide
from runs.decisions import operations, reviews
from runs.errors import CannotLookUp, HasReceipt, NotFound, NotYet, StaleVersion
from runs.ids import text_id
from runs.inputs import check_verdict
from runs.models import Operation
from runs.states import OperationState


def request_look_up(*, actor: Actor, operation_id: UUID) -> Operation:
    """Have a supervisor ask the target about an unknown operation now, also after it had given up, on record.

    What it finds is stored as evidence; an answer that proves something settles the operation. Asking twice is asking
    once. Raises: NotFound, NotAllowed, CannotLookUp.
    """
    actor.require("operation.settle")
    mine = Operation.objects.filter(run__tenant=actor.tenant)
    if not mine.filter(pk=operation_id).exists():
        raise NotFound("operation")
    refused = decide(operations.ask_again(operation_id=operation_id))
    if refused is not None:
        raise CannotLookUp(refused)
    audit(actor, "operation.look_up", text_id("op", operation_id), {})
    return mine.select_related("settled_by").get(pk=operation_id)


def settle_operation(
    *, actor: Actor, operation_id: UUID, version: int, outcome: str, note: str, override: bool = False
) -> Operation:
    """Decide an unknown operation by an operator's word, on record; or a decided one that evidence contradicts.

    Args: outcome: "happened" | "not_happened"; version: as the operator read it; override: "did not happen" is
    said although nobody saw the end of the process that sent it.
    Raises: NotFound, NotAllowed, InvalidInput, StaleVersion, NotYet (before the horizon, or without proof),
    HasReceipt (against one).
    """
    actor.require("operation.settle")
    found = Operation.objects.filter(pk=operation_id, run__tenant=actor.tenant).first()
    if found is None:
        raise NotFound("operation")
    happened, text = check_verdict(outcome, note)
    word: dict[str, Any] = {
        "operation_id": operation_id, "version": version, "happened": happened, "by": actor.user.pk,
        "by_name": display_name(actor.user), "note": text,
    }  # fmt: skip
    if found.contradicted_at is not None and found.state != OperationState.UNKNOWN:
        verdict = decide(reviews.review(**word))
    else:
        verdict = decide(operations.settle(**word, source="verdict", detail={"proof": "verdict"}, override=override))
    if isinstance(verdict, operations.NotSettled):
        if verdict.reason == "not_yet":
            raise NotYet(verdict.horizon_at, verdict.holder_gone)
        if verdict.reason == "receipt":
            raise HasReceipt
        if verdict.reason == "missing":
            raise NotFound("operation")
        raise StaleVersion
    audit(
        actor, "operation.settle", text_id("op", operation_id), {"outcome": outcome, "note": text, "override": override}
    )
    return Operation.objects.select_related("run").get(pk=operation_id)
