"""Stopping several runs of the list at once, and the table of what came of it, which goes on living."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from runs import selectors, services
from runs.access import Actor
from runs.errors import OutliveError
from runs.ids import BadId, parse_id
from runs.models import Run
from runs.pages.lists import MOST_ROWS, with_current_step
from runs.pages.visits import page, show
from runs.services import CancelReceipt
from runs.states import ENDED

type Answer = CancelReceipt | OutliveError


@require_POST
@page
def stop_many(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Ask the chosen runs to stop and show what came of it, run by run. Sent again, it changes nothing."""
    answers = services.cancel_runs(actor=actor, run_ids=_chosen(request))
    rows = list(with_current_step(selectors.visible_runs(actor).filter(pk__in=answers)))
    for run in rows:
        run.stop_result = _result(answers[run.pk])  # type: ignore[attr-defined]
    stopped = sum(_is_stopping(answer) for answer in answers.values())
    context: dict[str, Any] = {
        "rows": rows,
        "heading": ngettext("Stop of %(n)s run", "Stop of %(n)s runs", len(answers)) % {"n": len(answers)},
        "summary": _summary(stopped, len(answers)),
        "tone": "green" if answers and stopped == len(answers) else "amber",
    }
    return show(request, actor, "pages/stopped.html", context, section="runs")


def _chosen(request: HttpRequest) -> list[UUID]:
    chosen = []
    for text in request.POST.getlist("run")[:MOST_ROWS]:
        try:
            chosen.append(parse_id("run", text))
        except BadId:
            continue
    return chosen


def _is_stopping(answer: Answer) -> bool:
    return isinstance(answer, CancelReceipt) and not answer.too_late


def _summary(stopped: int, asked: int) -> str:
    if not asked:
        return _("You chose no run, so nothing was stopped.")
    if stopped == asked:
        return ngettext(
            "The stop is recorded. No new step will start.", "All stops are recorded. No new step will start.", asked
        )
    return _("%(n)s of %(all)s are recorded. The table says what became of the others.") % {"n": stopped, "all": asked}


def _result(answer: Answer) -> str:
    if isinstance(answer, OutliveError):
        return answer.message
    if answer.too_late:
        return _("It finished before your stop took effect.")
    if not answer.is_first:
        return _("It had been asked to stop before.")
    return _("Stopped at once.") if _has_ended(answer.run) else _("Recorded. No new step will start.")


def _has_ended(run: Run) -> bool:
    return run.status in ENDED
