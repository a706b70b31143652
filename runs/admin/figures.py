"""The operators' figures as a page: what each says, its value, and the list behind it."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from runs.access import operator_tenants
from runs.admin.desk import is_operator, status_text
from runs.figures import Figure, read_figures

RUNS, OPERATIONS = "admin:runs_run_changelist", "admin:runs_operation_changelist"
# name -> what it is called, and where its rows are listed
WORDS: dict[str, tuple[Any, str, str]] = {
    "stop_seconds": (gettext_lazy("From “Stop” to the end (last day)"), RUNS, "?status__exact=cancelled"),
    "work_started_after_stop": (gettext_lazy("Work that began after a stop (last day)"), RUNS, ""),
    "partial_output_final": (gettext_lazy("Cut text that was taken as final (last day)"), RUNS, ""),
    "stuck_stopping_runs": (gettext_lazy("Stopping for longer than their stop deadline"), RUNS,
                            "?status__exact=cancelling"),
    "orphan_operations": (gettext_lazy("Sent, and nobody holds the run"), OPERATIONS, "?state__exact=dispatched"),
    "unknown_operations": (gettext_lazy("Nobody knows yet whether it happened"), OPERATIONS, "?verdict=open"),
    "contradicted_operations": (gettext_lazy("A later receipt contradicts the verdict"), OPERATIONS, "?verdict=open"),
    "reconciliation_ratio": (gettext_lazy("Share of ended runs that still need reconciliation (last day)"), RUNS,
                             "?status__exact=needs_reconciliation"),
    "oldest_reconciliation_seconds": (gettext_lazy("Oldest run that needs reconciliation"), RUNS,
                                      "?status__exact=needs_reconciliation"),
    "runs": (gettext_lazy("Runs"), RUNS, ""),
    "oldest_queued_seconds": (gettext_lazy("Longest wait in the queue"), RUNS, "?status__exact=queued"),
    "busy_workers": (gettext_lazy("Workers that hold a run"), RUNS, "?status__exact=running"),
}  # fmt: skip
QUANTILES = {"0.5": gettext_lazy("half of them within"), "0.95": gettext_lazy("95 % within"), "1": gettext_lazy("all")}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the page. is_broken: a figure that must be 0 and is not."""

    text: str
    detail: str
    value: str
    link: str
    is_broken: bool
    must_be_zero: bool


@require_safe
def ops(request: HttpRequest) -> HttpResponse:
    """Show the figures of the tenants whose operator the visitor is; of all, to a superuser."""
    return admin.site.admin_view(_page)(request)


def _page(request: HttpRequest) -> HttpResponse:
    if not is_operator(request):
        raise PermissionDenied
    user: Any = request.user
    tenants = None if user.is_superuser else [tenant.pk for tenant in operator_tenants(user)]
    lines = [line for figure in read_figures(tenants) for line in _lines(figure)]
    context = {**admin.site.each_context(request), "title": _("Figures"), "lines": lines}
    return render(request, "admin/figures.html", context)


def _lines(figure: Figure) -> list[Line]:
    text, view, query = WORDS[figure.name]
    link = reverse(view) + query
    if not figure.samples:
        return [Line(text, "", "–", link, False, figure.must_be_zero)]
    lines = []
    for sample in figure.samples:
        labels = dict(sample.labels)
        status, quantile = labels.get("status"), labels.get("quantile")
        lines.append(
            Line(
                text,
                status_text(status) if status else str(QUANTILES[quantile]) if quantile else "",
                _value(figure.name, sample.value),
                f"{link}?status__exact={status}" if status else link,
                figure.must_be_zero and sample.value > 0,
                figure.must_be_zero,
            )
        )
    return lines


def _value(name: str, value: float) -> str:
    if name.endswith("_seconds"):
        return _("%(n)s s") % {"n": f"{value:,.1f}"}
    return f"{value:.1%}" if name.endswith("_ratio") else f"{value:,.0f}"
