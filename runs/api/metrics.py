"""GET /metrics: the figures of runs/figures.py for Prometheus, of the tenants where the caller is an operator."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from runs.access import Actor
from runs.api.auth import identify
from runs.api.errors import answer_error
from runs.api.problems import NotSignedIn, Problem
from runs.errors import NotAllowed
from runs.figures import Figure, read_figures

PREFIX = "outlive_"


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with all figures as gauges. A superuser sees every tenant, an operator their own."""
    try:
        actor = identify(request)
        if actor is None:
            raise NotSignedIn(_("Sign in, or send a valid token."))
        actor.require("tenant.watch")
    except (Problem, NotAllowed) as problem:
        return answer_error(request, problem)
    return HttpResponse(write_metrics(read_figures(_tenants(actor))), content_type=CONTENT_TYPE_LATEST)


def _tenants(actor: Actor) -> list[UUID] | None:
    return None if actor.user.is_superuser else [actor.tenant.pk]


def write_metrics(figures: Sequence[Figure]) -> bytes:
    """Write figures in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(figures))
    return generate_latest(registry)


class _Collector:
    """What the library asks for the metrics of one answer."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for figure in self._figures:
            metric = Metric(PREFIX + figure.name, figure.help, "gauge")
            for sample in figure.samples:
                metric.add_sample(metric.name, dict(sample.labels), sample.value)
            yield metric
