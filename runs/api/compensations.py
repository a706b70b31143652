"""Undoing committed effects over HTTP: ask, read, and decide what nobody knows."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Router

from runs import compensating, selectors
from runs.access import Actor
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.identifiers import if_match_of
from runs.api.ledger_schemas import Compensate, CompensationOut, SettleCompensation
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.schemas import ErrorEnvelope, ListOut
from runs.api.write_rows import write_compensation
from runs.errors import NotFound
from runs.ids import parse_id
from runs.models import Compensation

router = Router(tags=["operations"])
REFUSALS = {400: ErrorEnvelope, 403: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope, 412: ErrorEnvelope}


@router.post(
    "/operations/{operation_id}/compensations",
    response={201: CompensationOut, **REFUSALS},
    operation_id="compensate_operation",
)
def compensate_operation(request: HttpRequest, operation_id: str, body: Compensate) -> HttpResponse:
    """Have a committed effect undone. Needs If-Match with the operation's version; asked twice it is 409, sent once."""
    made = compensating.compensate_operation(
        actor=actor_of(request),
        operation_id=parse_id("op", operation_id),
        version=if_match_of(request),
        note=body.note,
    )
    return _answer(made, status=201)


@router.get(
    "/operations/{operation_id}/compensations",
    response={200: ListOut[CompensationOut], 404: ErrorEnvelope},
    operation_id="list_compensations",
)
def list_compensations(
    request: HttpRequest, operation_id: str, limit: int = 20, cursor: str | None = None
) -> HttpResponse:
    """List the tries to undo an operation, oldest first."""
    refuse_unknown_parameters(request, ())
    operation = selectors.visible_operations(_reader(request)).filter(id=parse_id("op", operation_id)).first()
    if operation is None:
        raise NotFound("operation")
    rows = operation.compensations.select_related("requested_by", "settled_by")
    page = read_page(rows, request, Order("requested_at", is_newest_first=False))
    return json_answer(page.body(write_compensation))


@router.get(
    "/compensations/{compensation_id}",
    response={200: CompensationOut, 404: ErrorEnvelope},
    operation_id="get_compensation",
)
def get_compensation(request: HttpRequest, compensation_id: str) -> HttpResponse:
    """Read one try to undo an effect; its ETag is what `settle` wants as If-Match."""
    found = _visible(_reader(request)).filter(id=parse_id("comp", compensation_id)).first()
    if found is None:
        raise NotFound("compensation")
    return _answer(found)


@router.post(
    "/compensations/{compensation_id}/settle",
    response={200: CompensationOut, **REFUSALS},
    operation_id="settle_compensation",
)
def settle_compensation(request: HttpRequest, compensation_id: str, body: SettleCompensation) -> HttpResponse:
    """Say on record whether an unknown compensation happened. Needs If-Match with the version that you looked at."""
    found = compensating.settle_compensation(
        actor=actor_of(request),
        compensation_id=parse_id("comp", compensation_id),
        version=if_match_of(request),
        outcome=body.outcome,
        note=body.note,
    )
    return _answer(found)


def _answer(found: Compensation, *, status: int = 200) -> HttpResponse:
    return json_answer(write_compensation(found), status=status, headers={"ETag": f'"{found.version}"'})


def _reader(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    actor.require("run.read")
    return actor


def _visible(actor: Actor) -> QuerySet[Compensation]:
    rows = Compensation.objects.select_related("requested_by", "settled_by")
    return rows.filter(operation__in=selectors.visible_operations(actor))
