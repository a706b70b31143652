"""What a person does to a run from its page: stop it, answer its question. Both are plain form posts."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from runs import selectors, services
from runs.access import Actor
from runs.errors import Busy, InvalidInput, TooLate
from runs.models import Run
from runs.pages.run import ANSWER_PREFIX, describe_state, show_run
from runs.pages.schema_form import Filled, fields_of_stored, fill, is_single
from runs.pages.visits import page, read_id


@require_POST
@page
def stop(request: HttpRequest, actor: Actor, run_id: str) -> HttpResponse:
    """Ask a run to stop. Asking again, from any tab or device, is never an error and changes nothing.

    A script that accepts JSON gets the state; everybody else is sent back to the run's page.
    """
    wants_json = "application/json" in request.headers.get("Accept", "")
    try:
        receipt = services.cancel_run(actor=actor, run_id=read_id("run", run_id), note=request.POST.get("note", ""))
    except Busy as busy:
        if wants_json:
            return JsonResponse({"error": busy.message}, status=503)
        messages.error(request, _("We could not record your stop just now. Press Stop again."))
        return _back(run_id)
    if wants_json:
        return JsonResponse(describe_state(receipt.run) | {"too_late": receipt.too_late})
    return _back(run_id, "?stop=late" if receipt.too_late else "")


@require_POST
@page
def answer(request: HttpRequest, actor: Actor, run_id: str, question_id: str) -> HttpResponse:
    """Answer what a run asks; what cannot be taken comes back with the form and the reason."""
    run = selectors.get_run(actor, read_id("run", run_id))
    question = selectors.get_question(run, read_id("q", question_id))
    actor.require("run.answer", run)
    form = fill(fields_of_stored(question.schema, prefix=ANSWER_PREFIX), request.POST)
    if not form.is_good:
        return _again(request, actor, run, question_id, form)
    value: Any = form.values
    if is_single(question.schema):
        value = next(iter(form.values.values()), None)
    try:
        services.answer_question(actor=actor, run_id=run.pk, question_id=question.pk, value=value)
    except InvalidInput as error:
        return _again(request, actor, run, question_id, form, error.message)
    except TooLate as late:
        messages.warning(request, late.message)
    except Busy as busy:
        return _again(request, actor, run, question_id, form, busy.message)
    return _back(run_id)


def _again(
    request: HttpRequest, actor: Actor, run: Run, question_id: str, form: Filled, problem: str = ""
) -> HttpResponse:
    return show_run(request, actor, run, answered={question_id: (form, problem)}, status=400)


def _back(run_id: str, query: str = "") -> HttpResponse:
    answer = HttpResponseRedirect(reverse("pages:run", args=[run_id]) + query)
    answer.status_code = 303
    return answer
