"""The list of runs: a filter in the address, pages, and single rows for what changed."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from runs import selectors
from runs.access import Actor
from runs.ids import BadId, new_id, parse_id
from runs.models import Run, Step
from runs.pages.visits import page, show
from runs.states import CANCELLABLE, Status, StepState

PAGE_ROWS = 25
MOST_ROWS = 100  # changed rows in one answer
LISTED = Q(parent__isnull=True) | Q(waiting_for="input") | Q(status=Status.NEEDS_RECONCILIATION)
FILTERS = ("running", "stopping", "verifying", "failed", "mine")


@require_safe
@page
def run_list(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the runs of the workspace, newest first. An unknown filter shows all."""
    chosen = request.GET.get("show", "")
    chosen = chosen if chosen in FILTERS else ""
    runs = selectors.visible_runs(actor).filter(condition(chosen, actor))
    listed: Page[Run] = Paginator(with_current_step(runs), PAGE_ROWS).get_page(request.GET.get("page"))
    listed.object_list = mark_stoppable(listed.object_list, actor)
    context = {
        "page": listed,
        "show": chosen,
        "filters": _filters(),
        "demo_key": f"page-{new_id().hex}",
        "may_choose": actor.may("run.stop"),
    }
    return show(request, actor, "pages/runs.html", context, section="runs")


@require_safe
@page
def rows(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Give the rows of `ids` as they are now, each saying whether the filter `show` still fits it.

    Without `ids` the first page's rows: what a list without a live connection asks for every few seconds. `plain`:
    without the boxes to choose them by.
    """
    visible = selectors.visible_runs(actor)
    if "ids" not in request.GET:
        listed = list(with_current_step(visible.filter(condition(request.GET.get("show", ""), actor)))[:PAGE_ROWS])
    else:
        listed = _marked(with_current_step(visible.filter(pk__in=_wanted(request))), request, actor)
    context = {
        "rows": mark_stoppable(listed, actor),
        "may_choose": actor.may("run.stop") and "plain" not in request.GET,
    }
    return show(request, actor, "pages/parts/run_rows.html", context)


def mark_stoppable(runs: Iterable[Run], actor: Actor) -> list[Run]:
    """Say of each run whether this person could stop it now."""
    marked = list(runs)
    for run in marked:
        run.can_be_stopped = run.status in CANCELLABLE and actor.may("run.stop", run)  # type: ignore[attr-defined]
    return marked


def _wanted(request: HttpRequest) -> list[UUID]:
    wanted = []
    for text in request.GET["ids"].split(",")[:MOST_ROWS]:
        try:
            wanted.append(parse_id("run", text))
        except BadId:
            continue
    return wanted


def _marked(visible: QuerySet[Run], request: HttpRequest, actor: Actor) -> list[Run]:
    fitting = set(visible.filter(condition(request.GET.get("show", ""), actor)).values_list("pk", flat=True))
    listed = list(visible)
    for run in listed:
        run.is_outside_filter = run.pk not in fitting  # type: ignore[attr-defined]
    return listed


def condition(chosen: str, actor: Actor) -> Q:
    """Give the condition of a filter. A run that another one began is listed only while it needs a person."""
    return LISTED & (Q(created_by=actor.user) if chosen == "mine" else selectors.FILTERS.get(chosen, Q()))


def with_current_step(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Add the name of the step that began last and is still open."""
    # The columns of an input or a result can be large, and no list shows them.
    newest_open = Step.objects.filter(run=OuterRef("pk"), attempt=OuterRef("stream_id"), state=StepState.OPEN)
    named = newest_open.order_by("-started_at").values("name")[:1]
    slim = runs.defer("input", "result", "metadata", "cancel_effects", "error_message")
    return slim.annotate(current_step=Subquery(named, output_field=CharField())).order_by(F("created_at").desc(), "-pk")


def _filters() -> list[dict[str, Any]]:
    names = {
        "": _("All"),
        "running": _("Running"),
        "stopping": _("Stopping"),
        "verifying": _("Being verified"),
        "failed": _("Failed"),
        "mine": _("Mine"),
    }
    return [{"show": key, "word": word} for key, word in names.items()]
