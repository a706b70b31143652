"""The page behind "Why?": what a browser can find out about the way to the server, and what to tell its admin."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from runs.access import Actor
from runs.pages.visits import page, show


@require_safe
@page
def connection(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the checks; runs/static/runs/check.js makes them."""
    checks = [
        {"name": "server", "title": _("The server answers")},
        {"name": "socket", "title": _("A live connection opens (WebSocket)")},
        {"name": "stream", "title": _("Nothing on the way holds events back")},
    ]
    context = {"checks": checks, "base_url": settings.BASE_URL}
    return show(request, actor, "pages/connection.html", context)
