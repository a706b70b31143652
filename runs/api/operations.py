"""The operation ledger over HTTP: what is unknown, and a person's verdict on it."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from runs import selectors, services
from runs.access import Actor
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.identifiers import if_match_of, is_unchanged
from runs.api.ledger_schemas import OperationOut, SettleOperation
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.problems import BadRequest
from runs.api.schemas import ErrorEnvelope, ListOut
from runs.api.write_rows import write_operation
from runs.errors import NotFound
from runs.ids import parse_id
from runs.models import Operation
from runs.states import OperationState

router = Router(tags=["operations"])


@router.get("/operations", response={200: ListOut[OperationOut], 400: ErrorEnvelope}, operation_id="list_operations")
def list_operations(
    request: HttpRequest,
    state: str | None = None,
    run_id: str | None = None,
    limit: int = 20,
    cursor: str | None = None,
) -> HttpResponse:
    """List operations, newest first. `state=unknown` are those that somebody must settle."""
    refuse_unknown_parameters(request, ("state", "run_id"))
    rows = _visible(actor_of(request))
    if state:
        if state not in {known.value for known in OperationState}:
            raise BadRequest(
                _("There is no state of that name. Known are: %(known)s.")
                % {"known": ", ".join(known.value for known in OperationState)},
                param="state",
            )
        rows = rows.filter(state=state)
    if run_id:
        rows = rows.filter(run=selectors.get_run(actor_of(request), parse_id("run", run_id)))
    return json_answer(read_page(rows, request, Order("created_at", is_newest_first=True)).body(write_operation))


@router.get(
    "/operations/{operation_id}",
    response={200: OperationOut, 304: None, 404: ErrorEnvelope},
    operation_id="get_operation",
)
def get_operation(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Read one operation; its ETag is what `settle` wants as If-Match."""
    operation = _visible(actor_of(request)).filter(id=parse_id("op", operation_id)).first()
    if operation is None:
        raise NotFound("operation")
    etag = f'"{operation.version}"'
    if is_unchanged(request, etag):
        return HttpResponse(status=304, headers={"ETag": etag})
    return json_answer(write_operation(operation), headers={"ETag": etag, "Cache-Control": "no-cache"})


@router.post(
    "/operations/{operation_id}/settle",
    response={
        200: OperationOut,
        400: ErrorEnvelope,
        403: ErrorEnvelope,
        404: ErrorEnvelope,
        409: ErrorEnvelope,
        412: ErrorEnvelope,
    },
    operation_id="settle_operation",
)
def settle_operation(request: HttpRequest, operation_id: str, body: SettleOperation) -> HttpResponse:
    """Say on record whether an unknown operation happened. Needs If-Match with the version that you looked at."""
    operation = services.settle_operation(
        actor=actor_of(request),
        operation_id=parse_id("op", operation_id),
        version=if_match_of(request),
        outcome=body.outcome,
        note=body.note,
        override=body.override,
    )
    return json_answer(write_operation(operation), headers={"ETag": f'"{operation.version}"'})


@router.post(
    "/operations/{operation_id}/lookup",
    response={202: OperationOut, 403: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope},
    operation_id="look_up_operation",
)
def look_up_operation(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Have the target asked about an unknown operation at once. What is found becomes evidence; read it again soon."""
    operation = services.request_look_up(actor=actor_of(request), operation_id=parse_id("op", operation_id))
    return json_answer(write_operation(operation), status=202, headers={"ETag": f'"{operation.version}"'})


def _visible(actor: Actor) -> QuerySet[Operation]:
    actor.require("run.read")
    return selectors.visible_operations(actor).select_related("settled_by")
