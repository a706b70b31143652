"""Attempts over HTTP: ask for a new one, list them, and read the stream of one that has ended."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from runs import selectors, services
from runs.api.answers import json_answer
from runs.api.attempt_schemas import AttemptOut, RetryRun
from runs.api.auth import actor_of
from runs.api.identifiers import idempotency_key_of, if_match_of
from runs.api.lists import refuse_unknown_parameters
from runs.api.problems import BadRequest, CursorExpired
from runs.api.run_object import API_ROOT, etag_of, run_body
from runs.api.runs import find_run
from runs.api.schemas import ErrorEnvelope, ListOut, RunOut
from runs.errors import InvalidInput, NotFound
from runs.frames import write_time
from runs.ids import BadId, parse_id, text_id
from runs.models import Attempt

router = Router(tags=["runs"])
MAX_EVENTS = 1000


@router.post(
    "/runs/{run_id}/attempts",
    response={
        201: RunOut,
        200: RunOut,
        400: ErrorEnvelope,
        403: ErrorEnvelope,
        404: ErrorEnvelope,
        409: ErrorEnvelope,
        412: ErrorEnvelope,
        422: ErrorEnvelope,
    },
    operation_id="retry_run",
)
def retry_run(request: HttpRequest, run_id: str, body: RetryRun | None = None) -> HttpResponse:
    """Try a run that has ended once more, as a new attempt with a stream of its own.

    What took effect outside is not done again, whatever `reuse` says; name an operation in `redo` to do it again under
    a new key. With If-Match nothing happens if the run has changed since you read it.
    """
    wanted = body or RetryRun()
    made = services.retry_run(
        actor=actor_of(request),
        run_id=parse_id("run", run_id),
        reason=wanted.reason,
        reuse=wanted.reuse,
        redo=[_operation_id(text) for text in wanted.redo],
        deadline_seconds=wanted.deadline_s,
        version=if_match_of(request) if "If-Match" in request.headers else None,
        idempotency_key=idempotency_key_of(request),
    )
    headers = {"Location": f"{API_ROOT}/runs/{text_id('run', made.run.pk)}", "ETag": etag_of(made.run)}
    if not made.is_new:
        headers["Idempotent-Replayed"] = "true"
    return json_answer(run_body(made.run), status=201 if made.is_new else 200, headers=headers)


@router.get(
    "/runs/{run_id}/attempts",
    response={200: ListOut[AttemptOut], 404: ErrorEnvelope},
    operation_id="list_attempts",
)
def list_attempts(request: HttpRequest, run_id: str) -> HttpResponse:
    """List the attempts of a run, oldest first: who asked for each and why, and what it reused."""
    refuse_unknown_parameters(request, ())
    attempts = find_run(request, run_id).attempts.select_related("created_by", "retry_of").order_by("number")
    data = [write_attempt(attempt) for attempt in attempts]
    return json_answer({"object": "list", "data": data, "has_more": False, "next_cursor": None})


@router.get(
    "/runs/{run_id}/attempts/{number}/events",
    response={200: dict[str, Any], 400: ErrorEnvelope, 404: ErrorEnvelope, 410: ErrorEnvelope},
    operation_id="read_attempt",
)
def read_attempt(request: HttpRequest, run_id: str, number: int, after: int = 0, limit: int = 500) -> HttpResponse:
    """Read the stored events of one attempt behind a seq, oldest first. The current one is followed at `/events`.

    Events that retention has deleted are gone: 410 `cursor_expired` names the earliest that is left; after its seq - 1
    the rest can be read.
    """
    refuse_unknown_parameters(request, ("after",))
    run = find_run(request, run_id)
    attempt = Attempt.objects.filter(run=run, number=number).first()
    if attempt is None:
        raise NotFound("attempt")
    if after < 0:
        raise BadRequest(_("This is the seq of the last event that you have: 0 or more."), param="after")
    if not 1 <= limit <= MAX_EVENTS:
        raise BadRequest(_("Ask for 1 to %(n)d events.") % {"n": MAX_EVENTS}, param="limit")
    page = selectors.events_after(attempt.stream_id, after, limit=limit)
    if reason := page.gap_after(after):
        raise CursorExpired(
            _("The events after this one are not kept one by one. Start at the earliest that is left."),
            param="after",
            details={"reason": reason, "earliest_seq": page.floor},
        )
    stream, last = text_id("st", attempt.stream_id), page.frames[-1]["seq"] if page.frames else after
    return json_answer(
        {
            "object": "list",
            "data": page.frames,
            "has_more": last < page.head,
            "next_cursor": f"{stream}:{last}",
            "stream_id": stream,
            "status": attempt.status,
            "is_ended": attempt.ended_at is not None,
            "earliest_seq": page.floor,
            "head_seq": page.head,
        }
    )


def write_attempt(attempt: Attempt) -> dict[str, Any]:
    """Write one attempt with where it comes from."""
    by, of = attempt.created_by, attempt.retry_of
    return {
        "object": "attempt",
        "number": attempt.number,
        "run_id": text_id("run", attempt.run_id),
        "stream_id": text_id("st", attempt.stream_id),
        "status": attempt.status,
        "created_at": write_time(attempt.created_at),
        "ended_at": None if attempt.ended_at is None else write_time(attempt.ended_at),
        "retry_of": None if of is None else of.number,
        "by": None if by is None else by.get_username(),
        "reason": attempt.reason,
        "reuse": attempt.reuse,
        "events_expired_at": None if attempt.events_expired_at is None else write_time(attempt.events_expired_at),
    }


def _operation_id(text: str) -> Any:
    try:
        return parse_id("op", text)
    except BadId:
        raise InvalidInput("redo", _("This is no operation id; it looks like op_0192….")) from None
