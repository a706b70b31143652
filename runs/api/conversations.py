"""Conversations over HTTP: what was said in one, what waits, and taking back a message that waits."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from runs import selectors, services
from runs.api.answers import json_answer
from runs.api.auth import actor_of
from runs.api.conversation_schemas import ConversationOut, NextMessageOut
from runs.api.lists import Order, read_page, refuse_unknown_parameters
from runs.api.run_object import API_ROOT, run_bodies
from runs.api.schemas import ErrorEnvelope, ListOut, RunOut
from runs.frames import write_time
from runs.ids import parse_id, text_id
from runs.models import Conversation, NextMessage, Run
from runs.states import SETTLED, Status

router = Router(tags=["conversations"])


@router.get(
    "/conversations/{conversation_id}",
    response={200: ConversationOut, 404: ErrorEnvelope},
    operation_id="get_conversation",
)
def get_conversation(request: HttpRequest, conversation_id: str) -> HttpResponse:
    """Read a conversation: its newest run, and the messages that wait for their turn."""
    return json_answer(write_conversation(_find(request, conversation_id)))


@router.get(
    "/conversations/{conversation_id}/runs",
    response={200: ListOut[RunOut], 404: ErrorEnvelope},
    operation_id="list_turns",
)
def list_turns(request: HttpRequest, conversation_id: str, limit: int = 20, cursor: str | None = None) -> HttpResponse:
    """List the runs of a conversation, newest first."""
    refuse_unknown_parameters(request, ())
    conversation = _find(request, conversation_id)
    runs = selectors.visible_runs(actor_of(request)).filter(conversation=conversation)
    page = read_page(runs, request, Order("created_at", is_newest_first=True))
    bodies = dict(zip((run.id for run in page.rows), run_bodies(page.rows), strict=True))
    return json_answer(page.body(lambda run: bodies[run.id]))


@router.delete(
    "/conversations/{conversation_id}/next_messages/{message_id}",
    response={200: NextMessageOut, 403: ErrorEnvelope, 404: ErrorEnvelope, 409: ErrorEnvelope},
    operation_id="withdraw_message",
)
def withdraw_message(request: HttpRequest, conversation_id: str, message_id: str) -> HttpResponse:
    """Take back a message that waits. One that has become a run is 409: stop that run instead."""
    message = services.withdraw_message(
        actor=actor_of(request),
        conversation_id=parse_id("conv", conversation_id),
        message_id=parse_id("next", message_id),
    )
    return json_answer(write_next_message(message))


def write_conversation(conversation: Conversation) -> dict[str, Any]:
    """Write a conversation with what goes on in it."""
    conversation_id = text_id("conv", conversation.pk)
    newest = Run.objects.filter(conversation=conversation).order_by("-turn").first()
    return {
        "id": conversation_id,
        "object": "conversation",
        "created_at": write_time(conversation.created_at),
        "created_by": conversation.created_by.get_username(),
        "turns": conversation.turns,
        "run_id": None if newest is None else text_id("run", newest.pk),
        "status": None if newest is None else newest.status,
        "next_messages": [write_next_message(m) for m in selectors.waiting_messages(conversation.pk)],
        "links": {"runs": f"{API_ROOT}/conversations/{conversation_id}/runs"},
    }


def write_next_message(message: NextMessage) -> dict[str, Any]:
    """Write a message that came while its conversation was busy, and what it waits for."""
    is_waiting = message.run_id is None and message.withdrawn_at is None
    busy = (
        Run.objects.filter(conversation=message.conversation_id).exclude(status__in=SETTLED).order_by("-turn").first()
    )
    waits_for = busy if is_waiting else None
    return {
        "id": text_id("next", message.pk),
        "object": "next_message",
        "conversation_id": text_id("conv", message.conversation_id),
        "state": "waiting" if is_waiting else "started" if message.run_id else "withdrawn",
        "agent": message.agent,
        "input": message.input,
        "created_at": write_time(message.created_at),
        "run_id": None if message.run_id is None else text_id("run", message.run_id),
        "waits_for": None if waits_for is None else text_id("run", waits_for.pk),
        # "verdict": that run ended in doubt; somebody has to settle it before this message becomes a run.
        "waits_until": None if waits_for is None else _until(waits_for),
    }


def _until(run: Run) -> str:
    return "verdict" if run.status == Status.NEEDS_RECONCILIATION else "end"


def _find(request: HttpRequest, conversation_id: str) -> Conversation:
    actor = actor_of(request)
    actor.require("run.read")
    return selectors.get_conversation(actor, parse_id("conv", conversation_id))
