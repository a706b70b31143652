"""Stopping several runs with one call: a result for each, and none of them keeps another from stopping."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BaseModel, Field

from runs import services
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.run_object import write_cancel
from runs.api.schemas import CancelOut, CancelRun, ErrorEnvelope
from runs.errors import NotFound, OutliveError
from runs.ids import BadId, parse_id
from runs.states import Status

router = Router(tags=["runs"])
MOST_RUNS = 100


class CancelMany(CancelRun):
    """POST /runs:cancel."""

    ids: Annotated[list[str], Field(min_length=1, max_length=MOST_RUNS)]


class RefusalOut(BaseModel):
    """Why a run was not asked to stop."""

    code: str
    message: str


class CancelResultOut(BaseModel):
    """What came of one of the runs: `status` and `cancel`, or `error`."""

    object: Literal["cancel_result"]
    run_id: str
    status: Status | None
    cancel: CancelOut | None
    error: RefusalOut | None


class CancelResultsOut(BaseModel):
    """A result for each id, in the order of the ids."""

    object: Literal["list"]
    data: list[CancelResultOut]


@router.post("/runs:cancel", response={200: CancelResultsOut, 400: ErrorEnvelope}, operation_id="cancel_runs")
def cancel_runs(request: HttpRequest, body: CancelMany) -> HttpResponse:
    """Ask several runs to stop. Always 200: each run's result says whether it was asked, had ended, or was refused."""
    known = {}
    for text in body.ids:
        try:
            known[text] = parse_id("run", text)
        except BadId:
            continue
    answers = services.cancel_runs(actor=actor_of(request), run_ids=known.values(), note=body.note)
    results = [_result(text, answers[known[text]] if text in known else None) for text in dict.fromkeys(body.ids)]
    return json_answer({"object": "list", "data": results})


def _result(run_id: str, answer: services.CancelReceipt | OutliveError | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "object": "cancel_result", "run_id": run_id, "status": None, "cancel": None, "error": None,
    }  # fmt: skip
    if isinstance(answer, services.CancelReceipt):
        cancel = write_cancel(answer.run, answer.effects, too_late=answer.too_late)
        return result | {"status": answer.run.status, "cancel": cancel}
    refusal = answer or NotFound("run")
    return result | {"error": {"code": refusal.code, "message": refusal.message}}
