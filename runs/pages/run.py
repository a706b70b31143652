"""The page of one run: complete without JavaScript, and the small answers that its modules ask for."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from runs import selectors
from runs.access import Actor
from runs.ids import text_id
from runs.models import Question, Run, Shell
from runs.pages import present, words
from runs.pages.artifacts import show_artifacts
from runs.pages.retrying import retry_form
from runs.pages.schema_form import Filled, fields_of_stored
from runs.pages.stop_words import stop_line
from runs.pages.talking import talk
from runs.pages.visits import page, read_id, show
from runs.states import CANCELLABLE, ENDED, STOPPING

ANSWER_PREFIX = "q-"


@require_safe
@page
def run_page(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Show a run: its steps, texts, tools, questions and files as they are stored now."""
    return show_run(request, actor, selectors.get_run(actor, read_id("run", run_id)))


def show_run(
    request: HttpRequest, actor: Actor, run: Run, *, answered: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    """Render the page. `answered`: {question id: (the form as it came back, what is wrong)} of a refused answer."""
    view, seq = selectors.view_of(run)
    people = selectors.people_of(actor)
    result_text, result_rest = present.show_result(view)
    may_stop = actor.may("run.stop", run)
    context = {
        "run": run,
        "run_id": text_id("run", run.pk),
        "parent_id": text_id("run", run.parent_id) if run.parent_id else "",
        "shell": Shell.objects.filter(run=run).first(),
        "view": view,
        "cursor": f"{text_id('st', run.stream_id)}:{seq}",
        "title": view["title"] or run.agent,
        "status_word": words.STATUS[view["status"]].text,
        "steps": present.show_steps(view),
        "effects": _effects(view, run),
        "error": present.error_text(view["error"]),
        "verifying": present.verifying_text(view),
        "result_text": result_text,
        "result_rest": result_rest,
        "usage": present.usage_text(view["usage"]),
        "attempt_text": present.attempt_text(view),
        "retry": retry_form(actor, run),
        "talk": talk(actor, run),
        "artifacts": show_artifacts(run),
        "open_questions": [_form_of(q, answered or {}) for q in selectors.open_questions(run)],
        "stop_line": stop_line(view, people=people, is_late=request.GET.get("stop") == "late"),
        "deadline_at": run.deadline_at,
        "can_stop": may_stop and run.status in CANCELLABLE,
        "is_stopping": run.status in STOPPING,
        "may_stop": may_stop,
        "may_answer": actor.may("run.answer", run),
        "can_settle": request.user.is_staff and actor.may("operation.settle"),
        "socket_role": "control" if may_stop and run.on_disconnect != "continue" else "viewer",
        "words": words.words_for_scripts(),
        "people": people,
        "base_url": settings.BASE_URL,
        "blank": present.show_blank(),
        "blank_message": {"message_id": "", "text": "", "state": "open"},
        "blank_artifact": {"id": "", "name": "", "bytes": 0, "url": "", "html": ""},
    }
    return show(request, actor, "pages/run.html", context, section="runs", status=status)


@require_safe
@page
def raw(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Give the folded view as JSON, for reading."""
    run = selectors.get_run(actor, read_id("run", run_id))
    view, _seq = selectors.view_of(run)
    return JsonResponse(view, json_dumps_params={"indent": 2, "ensure_ascii": False})


@require_safe
@page
def state(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Give where a run stands: what the Stop button asks when it got no answer."""
    return JsonResponse(describe_state(selectors.get_run(actor, read_id("run", run_id))))


@require_safe
@page
def extras(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Give the parts of the page that only the server can make: forms and previews of artifacts."""
    run = selectors.get_run(actor, read_id("run", run_id))
    context = {
        "run_id": text_id("run", run.pk),
        "artifacts": show_artifacts(run),
        "open_questions": [_form_of(q, {}) for q in selectors.open_questions(run)],
        "may_answer": actor.may("run.answer", run),
        "retry": retry_form(actor, run),
        "talk": talk(actor, run),
    }
    return show(request, actor, "pages/parts/extras.html", context)


def describe_state(run: Run) -> dict[str, Any]:
    """Say where a run stands, for scripts."""
    return {
        "run_id": text_id("run", run.pk),
        "status": run.status,
        "version": run.version,
        "is_ended": run.status in ENDED,
        "cancel_id": text_id("cancel", run.cancel_id) if run.cancel_id else None,
        "cancel_requested_at": run.cancel_requested_at,
        "stop_deadline_at": run.stop_deadline_at,
    }


def _effects(view: dict[str, Any], run: Run) -> list[dict[str, Any]]:
    """Give the receipt of a stop; while the run is stopping, what is known so far."""
    return present.show_effects(selectors.run_effects(run)) if view["cancel"] else []


def _form_of(question: Question, answered: dict[str, Any]) -> dict[str, Any]:
    """Give an open question with its form: as it came back if its answer was refused, else empty."""
    question_id = text_id("q", question.pk)
    fields = fields_of_stored(question.schema, prefix=ANSWER_PREFIX)
    form, problem = answered.get(question_id, (Filled(fields, {}), ""))
    until = min(filter(None, (question.expires_at, question.run.deadline_at)))  # an ended run takes no answer
    shown = {"id": question_id, "prompt": question.prompt, "expires_at": until}
    if len(fields) == 1 and fields[0].name == "value" and fields[0].label == "Value":
        form = form.with_label(_("Your answer"))
    decisions = [f for f in form.fields if f.kind == "boolean"]
    # One yes-or-no question is answered by two buttons; a box that nobody ticked would be a silent no.
    decision = decisions[0] if len(decisions) == 1 else None
    rest = [f for f in form.fields if f is not decision]
    return {"question": shown, "fields": rest, "decision": decision, "problem": problem}
