"""Runs over HTTP: make, list, read, stop, answer, and their steps."""

import logging
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from runs import selectors, services
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.identifiers import idempotency_key_of, is_unchanged
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.problems import BadRequest
from runs.api.run_object import API_ROOT, etag_of, run_bodies, run_body, write_cancel
from runs.api.schemas import (
    AnswerQuestion,
    CancelReceiptOut,
    CancelRun,
    CreateRun,
    ErrorEnvelope,
    Grace,
    ListOut,
    QuestionOut,
    RunOut,
    StepOut,
)
from runs.api.write_rows import write_question, write_step
from runs.errors import InvalidInput
from runs.ids import BadId, parse_id, text_id
from runs.models import NextMessage, Run, Step
from runs.states import Status

__all__ = ["create_run", "router", "run_body"]

logger = logging.getLogger(__name__)
router = Router(tags=["runs"])
NEWEST_FIRST = Order("created_at", is_newest_first=True)
MAX_SEARCH = 200


def create_run(request: HttpRequest, body: CreateRun) -> tuple[int, Run | NextMessage, dict[str, str]]:
    """Make a run, or find the one that the same Idempotency-Key made; with a conversation, its next one.

    Returns: status (201 new, 200 found, 202 a message of a busy conversation that waits), the run or message, and the
    headers of the answer. The caller writes the body or streams the events.
    Raises: BadRequest for a malformed key, and what the services refuse.
    """
    policy = body.on_disconnect
    fields: dict[str, Any] = {
        "actor": actor_of(request),
        "agent": body.agent,
        "input": body.input,
        "title": body.title,
        "deadline_seconds": body.deadline_s,
        "on_disconnect": {"grace_s": policy.grace_s} if isinstance(policy, Grace) else policy,
        "metadata": body.metadata,
        "budget_tokens": body.budget.tokens if body.budget is not None else None,
        "idempotency_key": idempotency_key_of(request),
    }
    created: services.Created | services.Waiting
    if body.conversation_id is None:
        created = services.create_run(**fields)
    else:
        conversation_id = _read_conversation_id(body.conversation_id)
        created = services.send_message(**fields, conversation_id=conversation_id, on_busy=body.on_busy)
    if isinstance(created, services.Waiting):
        conversation = text_id("conv", created.message.conversation_id)
        waits = {"Location": f"{API_ROOT}/conversations/{conversation}"}
        return 202, created.message, waits if created.is_new else {**waits, "Idempotent-Replayed": "true"}
    headers = {"Location": f"{API_ROOT}/runs/{text_id('run', created.run.id)}", "ETag": etag_of(created.run)}
    if created.is_new:
        return 201, created.run, headers
    return 200, created.run, {**headers, "Idempotent-Replayed": "true"}


@router.get("/runs", response={200: ListOut[RunOut], 400: ErrorEnvelope}, operation_id="list_runs")
def list_runs(
    request: HttpRequest,
    status: str | None = None,
    agent: str | None = None,
    parent: str | None = None,
    q: str | None = None,
    limit: int = 20,
    cursor: str | None = None,
) -> HttpResponse:
    """List runs, newest first. `status` takes several, separated by commas; `q` looks in titles and ids.

    `parent` lists the children of a run, of all its attempts.
    """
    actor = actor_of(request)
    actor.require("run.read")
    refuse_unknown_parameters(request, ("status", "agent", "parent", "q"))
    runs = selectors.visible_runs(actor)
    if status:
        runs = runs.filter(status__in=_read_statuses(status))
    if agent:
        runs = runs.filter(agent=agent)
    if parent:
        runs = runs.filter(parent=_parse_parent(parent))
    if q:
        runs = runs.filter(_matches(q))
    page = read_page(runs, request, NEWEST_FIRST)
    bodies = dict(zip((run.id for run in page.rows), run_bodies(page.rows), strict=True))
    return json_answer(page.body(lambda run: bodies[run.id]))


@router.get("/runs/{run_id}", response={200: RunOut, 304: None, 404: ErrorEnvelope}, operation_id="get_run")
def get_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Read a run. Send the ETag back as If-None-Match to be told 304 while nothing has changed."""
    run = find_run(request, run_id)
    etag = etag_of(run)
    if is_unchanged(request, etag):
        return HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": "no-cache"})
    return json_answer(run_body(run), headers={"ETag": etag, "Cache-Control": "no-cache"})


@router.post(
    "/runs/{run_id}/cancel",
    response={202: CancelReceiptOut, 200: CancelReceiptOut, 404: ErrorEnvelope},
    operation_id="cancel_run",
)
def cancel_run(request: HttpRequest, run_id: str, body: CancelRun | None = None) -> HttpResponse:
    """Ask a run to stop. 202 the first time, 200 when it was asked before or has ended; never a conflict."""
    receipt = services.cancel_run(
        actor=actor_of(request), run_id=parse_id("run", run_id), note=body.note if body is not None else ""
    )
    return _cancel_answer(receipt, status=202 if receipt.is_first else 200)


@router.post(
    "/runs/{run_id}/force_stop",
    response={200: CancelReceiptOut, 403: ErrorEnvelope, 404: ErrorEnvelope},
    operation_id="force_stop_run",
)
def force_stop_run(request: HttpRequest, run_id: str, body: CancelRun | None = None) -> HttpResponse:
    """End a run now, without waiting for its worker or the stop deadline. Needs the role operator; on record.

    It kills nothing faster than a stop does: it ends the waiting. What has no proof by now is unknown, and the run then
    needs reconciliation. Again, or after the end, it is 200 and nothing changes.
    """
    receipt = services.force_stop_run(
        actor=actor_of(request), run_id=parse_id("run", run_id), note=body.note if body is not None else ""
    )
    return _cancel_answer(receipt, status=200)


def _cancel_answer(receipt: services.CancelReceipt, *, status: int) -> HttpResponse:
    run = receipt.run
    answer = {
        "object": "cancel_receipt",
        **write_cancel(run, receipt.effects, too_late=receipt.too_late),
        "status": run.status,
        "run": run_body(run),
    }
    return json_answer(answer, status=status, headers={"ETag": etag_of(run)})


@router.post(
    "/runs/{run_id}/answers/{question_id}",
    response={200: QuestionOut, 400: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope},
    operation_id="answer_question",
)
def answer_question(request: HttpRequest, run_id: str, question_id: str, body: AnswerQuestion) -> HttpResponse:
    """Answer a question. The same answer again is 200; another one, or one that came too late, is 409."""
    idempotency_key_of(request)  # the answer is its own key; a malformed one is still refused
    question, _is_new = services.answer_question(
        actor=actor_of(request),
        run_id=parse_id("run", run_id),
        question_id=parse_id("q", question_id),
        value=body.value,
    )
    return json_answer(write_question(question))


@router.get("/runs/{run_id}/steps", response={200: ListOut[StepOut], 404: ErrorEnvelope}, operation_id="list_steps")
def list_steps(request: HttpRequest, run_id: str, limit: int = 20, cursor: str | None = None) -> HttpResponse:
    """List the steps of the current attempt, oldest first."""
    refuse_unknown_parameters(request, ())
    run = find_run(request, run_id)
    steps = Step.objects.filter(run=run, attempt_id=run.stream_id)
    return json_answer(read_page(steps, request, Order("started_at", is_newest_first=False)).body(write_step))


def find_run(request: HttpRequest, run_id: str) -> Run:
    """Find a run that the caller may see.

    Raises: BadId, NotFound (both are 404), NotAllowed when the token has no right to read runs.
    """
    actor = actor_of(request)
    actor.require("run.read")
    return selectors.get_run(actor, parse_id("run", run_id))


def _parse_parent(text: str) -> UUID:
    try:
        return parse_id("run", text)
    except BadId:
        raise BadRequest(_("This is no id of a run."), param="parent") from None


def _read_conversation_id(text: str) -> UUID:
    try:
        return parse_id("conv", text)
    except BadId:
        raise InvalidInput("conversation_id", _("This is no conversation id; it looks like conv_0192….")) from None


def _read_statuses(text: str) -> list[str]:
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    known = {status.value for status in Status}
    for name in wanted:
        if name not in known:
            raise BadRequest(
                _("There is no status of that name. Known are: %(known)s.") % {"known": ", ".join(sorted(known))},
                param="status",
            )
    return wanted


def _matches(q: str) -> Q:
    if len(q) > MAX_SEARCH:
        raise BadRequest(_("Search for at most %(n)d characters.") % {"n": MAX_SEARCH}, param="q")
    in_title = Q(title__icontains=q)
    try:
        return in_title | Q(id=parse_id("run", q.strip()))
    except BadId:
        return in_title
