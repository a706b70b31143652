"""Going on with a conversation from the page of one of its runs: what was said, what waits, and the next message."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from runs import selectors, services
from runs.access import Actor
from runs.agents.registry import get_agent
from runs.errors import (
    AlreadyStarted,
    Busy,
    ConversationBusy,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    UnknownAgent,
)
from runs.ids import new_id, text_id
from runs.models import Conversation, Run
from runs.pages.visits import page, read_id
from runs.states import ENDED, OnBusy, Status

BEFORE = 10  # turns that the page shows above
SHOWN_CHARS = 2000


def talk(actor: Actor, run: Run) -> dict[str, Any] | None:
    """Give what the page shows of the run's conversation; None where it has none."""
    if run.conversation_id is None:
        return None
    conversation: Conversation = selectors.get_conversation(actor, run.conversation_id)
    runs = selectors.visible_runs(actor).filter(conversation=conversation)
    before = list(runs.filter(turn__lt=run.turn).order_by("-turn")[:BEFORE])
    after = runs.filter(turn__gt=run.turn).order_by("turn").first()
    waiting = list(selectors.waiting_messages(conversation.pk))
    may_go_on = actor.may("conversation.continue", conversation) and _converses(run)
    return {
        "turn": run.turn,
        "before": [_turn(one) for one in reversed(before)],
        "after": None if after is None else _turn(after) | {"came_from": _came_from(after)},
        "waiting": [{"id": text_id("next", m.pk), "prompt": _prompt(m.input)} for m in waiting],
        "is_in_doubt": run.status == Status.NEEDS_RECONCILIATION,
        "is_live": run.status not in ENDED,
        "may_go_on": may_go_on,
        "has_form": may_go_on and after is None,
        "may_interrupt": actor.may("run.stop", conversation),
        "key": f"page-{new_id().hex}",
    }


def _converses(run: Run) -> bool:
    try:
        return get_agent(run.agent).converses
    except UnknownAgent:
        return False


def _turn(run: Run) -> dict[str, Any]:
    answer = run.result if isinstance(run.result, str) else ""
    return {"id": text_id("run", run.pk), "prompt": _prompt(run.input), "answer": answer[:SHOWN_CHARS], "run": run}


def _came_from(run: Run) -> str:
    message = getattr(run, "came_from", None)
    return "" if message is None else text_id("next", message.pk)


def _prompt(given: Any) -> str:
    return str(given.get("prompt") or "")[:SHOWN_CHARS] if isinstance(given, dict) else ""


@require_POST
@page
def go_on(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Send the next message: the input of this run with another prompt. It opens the new run, or waits here."""
    run = selectors.get_run(actor, read_id("run", run_id))
    if run.conversation_id is None:
        raise NotFound("conversation")
    try:
        sent = services.send_message(
            actor=actor,
            conversation_id=run.conversation_id,
            agent=run.agent,
            input={**run.input, "prompt": request.POST.get("prompt", "")},
            on_busy=request.POST.get("on_busy", OnBusy.ENQUEUE.value),
            idempotency_key=request.POST.get("key", "")[:200].replace("\x00", "") or None,
        )
    except IdempotencyMismatch:
        messages.warning(request, _("This message was sent already; the first one stands."))
    except (InvalidInput, ConversationBusy, Busy) as refusal:
        messages.warning(request, refusal.message)
    else:
        if isinstance(sent, services.Waiting):
            return _to(run_id, f"?sent={text_id('next', sent.message.pk)}#talk")
        return _to(text_id("run", sent.run.pk))
    return _to(run_id, "#talk")


@require_POST
@page
def take_back(request: HttpRequest, actor: Actor, run_id: str, message_id: str) -> HttpResponse:
    """Take a message back that waits."""
    run = selectors.get_run(actor, read_id("run", run_id))
    if run.conversation_id is None:
        raise NotFound("conversation")
    try:
        services.withdraw_message(
            actor=actor, conversation_id=run.conversation_id, message_id=read_id("next", message_id)
        )
    except AlreadyStarted as late:
        messages.warning(request, late.message)
    return _to(run_id, "#talk")


def _to(run_id: str, more: str = "") -> HttpResponse:
    answer = HttpResponseRedirect(reverse("pages:run", args=[run_id]) + more)
    answer.status_code = 303
    return answer
