"""Which part answers which address."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from runs.admin.figures import ops
from runs.api.build import api
from runs.api.health import healthz, readyz
from runs.api.metrics import metrics
from runs.pages.urls import handler400, handler403, handler404, handler500
from streaming.api import router as streaming_router
from streaming.diagnostics import router as diagnostics_router

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

api.add_router("", streaming_router)
api.add_router("", diagnostics_router)

urlpatterns: list[URLPattern | URLResolver] = [
    path("favicon.ico", RedirectView.as_view(url=static("runs/mark.svg"))),  # the admin names no icon of its own
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics, name="metrics"),
    path("ops/", ops, name="ops"),
    path("api/v1/", api.urls),
    path("admin/django_rq/", include("django_rq.urls")),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("runs.pages.urls")),
]
