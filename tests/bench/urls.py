"""All addresses of Outlive, and POST /bench/floor: what any authenticated write costs here.

It goes through the same server process, middleware, token check and JSON layer as POST /api/v1/runs, and commits one
row. What creating a run costs more than this is what Outlive adds.
"""

from django.http import HttpRequest, HttpResponse
from django.urls import path
from ninja import NinjaAPI, Schema

from config.urls import handler400, handler403, handler404, handler500
from config.urls import urlpatterns as ours
from runs.api.answers import json_answer
from runs.api.auth import AUTHENTICATION, actor_of
from runs.models import AuditEntry

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

api = NinjaAPI(title="Floor", urls_namespace="bench", auth=AUTHENTICATION, docs_url=None, openapi_url=None)


class Note(Schema):
    """A body to be read and checked, as every write has one."""

    text: str


@api.post("/floor")
def commit_one_row(request: HttpRequest, body: Note) -> HttpResponse:
    """Commit one row."""
    actor = actor_of(request)
    entry = AuditEntry.objects.create(tenant=actor.tenant, user=actor.user, action="bench.floor", subject=body.text)
    return json_answer({"id": entry.pk.hex}, status=201)


urlpatterns = [path("bench/", api.urls), *ours]
