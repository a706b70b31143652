"""The stream's part of /api/v1: `POST /runs`, whose answer may be a stream, and `GET /runs/{id}/events`.

config/urls.py adds `router` to the one NinjaAPI. `POST /runs` is put on the router of runs.api, for ninja serves one
address from one router only.
"""

from dataclasses import replace
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _
from ninja import Router

from runs.api import runs as runs_api
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.conversation_schemas import NextMessageOut
from runs.api.conversations import write_next_message
from runs.api.problems import BadRequest, CursorExpired
from runs.api.schemas import CreateRun, ErrorEnvelope, RunOut
from runs.ids import text_id
from runs.models import NextMessage, Run
from runs.selectors import view_of
from streaming.access import Who, read_credentials, who_called
from streaming.follow import Opening, judge
from streaming.pages import PageRequest, answer_page, answer_snapshot, read_page_now
from streaming.protocol import BadCursor, Cursor, GapReason, parse_cursor
from streaming.sse import answer_stream

router = Router(tags=["events"])
API_ROOT = "/api/v1"
MAX_LIMIT, MAX_WAIT_SECONDS = 1000, 25.0


@runs_api.router.post(
    "/runs",
    response={
        201: RunOut,
        200: RunOut,
        202: NextMessageOut,
        400: ErrorEnvelope,
        403: ErrorEnvelope,
        409: ErrorEnvelope,
        422: ErrorEnvelope,
    },
    operation_id="create_run",
)
def create_run(request: HttpRequest, body: CreateRun) -> HttpResponseBase:
    """Start a run. With `"stream": true` or `Accept: text/event-stream` the answer is its stream of events.

    With `conversation_id` it is the next run of that conversation. While another one is active, `on_busy` decides:
    reject (409), enqueue (202, the message waits and becomes a run when that one has ended) or interrupt (that one is
    asked to stop first).
    """
    status, run, headers = runs_api.create_run(request, body)
    if isinstance(run, NextMessage):
        return json_answer(write_next_message(run), status=status, headers=headers)
    if not body.stream and not wants_stream(request):
        return json_answer(runs_api.run_body(run), status=status, headers=headers)
    response = stream_response(request, run, None, status=status, is_control=status == 201)
    for name, value in headers.items():
        response[name] = value
    response["Location"] = events_url(run)
    return response


@router.get(
    "/runs/{run_id}/events",
    response={200: dict[str, Any], 204: None, 400: ErrorEnvelope, 404: ErrorEnvelope, 410: ErrorEnvelope},
    operation_id="follow_run",
)
def follow_run(
    request: HttpRequest,
    run_id: str,
    after: str | None = None,
    limit: int = 500,
    wait: float = 0.0,
    tail: bool = False,
    snapshot: bool = False,
) -> HttpResponseBase:
    """Read a run's events after a cursor: a stream with `Accept: text/event-stream`, else a page.

    A page waits up to `wait` seconds (at most 25) for the first event. A stream ends with the run; asked again at its
    head it answers 204, which tells an EventSource to stop. `Last-Event-ID` is newer than `after` and wins. With
    `snapshot` a stream without a cursor begins with the view of the run; a page holds the view alone, and the cursor
    to go on from.
    """
    run = runs_api.find_run(request, run_id)
    cursor = read_cursor(request.headers.get("Last-Event-ID") or after)
    if wants_stream(request):
        return stream_response(request, run, cursor, wants_snapshot=snapshot, is_tail=tail)
    if snapshot and cursor is None:
        return answer_snapshot(*view_of(run))
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(_("Ask for 1 to %(n)d events.") % {"n": MAX_LIMIT}, param="limit")
    if not 0 <= wait <= MAX_WAIT_SECONDS:
        raise BadRequest(_("Wait for 0 to %(n)d seconds.") % {"n": MAX_WAIT_SECONDS}, param="wait")
    asked = PageRequest(run.pk, cursor or Cursor(run.stream_id, 0), limit, wait)
    page = read_page_now(connection, asked)
    reason = judge(asked.after, page.row.stream_id, floor=page.row.floor_seq, head=page.row.last_seq)
    if reason is GapReason.OTHER_STREAM and run.attempts.filter(stream_id=asked.after.stream_id).exists():
        reason = GapReason.NEW_ATTEMPT
    if reason is not None or not page.follows(asked.after.seq):
        raise CursorExpired(
            _("The events after this cursor are not kept. Ask again with snapshot=1 for the view in their place."),
            param="after",
            details={"reason": reason or "trimmed", "earliest_seq": page.row.floor_seq},
        )
    return answer_page(asked, page, who_asks(request))


def stream_response(
    request: HttpRequest,
    run: Run,
    after: Cursor | None,
    *,
    status: int = 200,
    is_control: bool = False,
    wants_snapshot: bool = False,
    is_tail: bool = False,
) -> HttpResponseBase:
    """Answer with a run's events as SSE, or 204 when it has ended and the cursor is at its head.

    Args: is_control: this is the stream of the run's own create, which counts as a control connection.
    """
    is_at_head = after is not None and after.stream_id == run.stream_id and after.seq == run.last_seq
    if run.terminal_at is not None and is_at_head and not is_tail:
        return HttpResponse(status=204)
    opening = Opening(run.pk, run.stream_id, after, wants_snapshot=wants_snapshot, is_tail=is_tail)
    counts = is_control and run.on_disconnect != "continue" and actor_of(request).may("run.stop", run)
    who = replace(who_asks(request), controls="own") if counts else who_asks(request)
    return answer_stream(request, opening, who, status=status, is_control=counts)


def who_asks(request: HttpRequest) -> Who:
    """Write down by whose right the stream is open."""
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in request.headers.items()]
    brought = read_credentials(headers)
    return who_called(actor_of(request), brought.session_key)


def wants_stream(request: HttpRequest) -> bool:
    """Say whether the caller asked for server-sent events."""
    return "text/event-stream" in request.headers.get("Accept", "")


def read_cursor(text: str | None) -> Cursor | None:
    """Read a cursor from the outside; empty is none. Raises: BadRequest."""
    if not text:
        return None
    try:
        return parse_cursor(text)
    except BadCursor as error:
        raise BadRequest(_("A cursor is <stream_id>:<seq>, as in an event's id."), param="after") from error


def events_url(run: Run) -> str:
    """Where the run's events are read."""
    return f"{API_ROOT}/runs/{text_id('run', run.pk)}/events"
