"""A visit: who looks at a page. One decorator signs in, finds the actor and turns refusals into error pages."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from runs.access import Actor, actor_for
from runs.errors import NotAllowed, NotFound
from runs.ids import BadId, parse_id
from runs.pages.words import ROLE

type Page[**P] = Callable[Concatenate[HttpRequest, Actor, P], HttpResponse]


def page[**P](view: Page[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Make a view of `view(request, actor, …)`: the sign-in page without a session, else the visitor's actor.

    Refusals of the domain become pages: not found (also somebody else's) is 404, not allowed is 403.
    """

    @login_required
    @wraps(view)
    def visit(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        actor = actor_for(request.user)
        if actor is None:
            raise PermissionDenied(_("You belong to no workspace yet. Ask an admin to add you to one."))
        try:
            return view(request, actor, *args, **kwargs)
        except NotFound as refusal:
            raise Http404(refusal.message) from refusal
        except NotAllowed as refusal:
            raise PermissionDenied(refusal.message) from refusal

    return visit


def read_id(kind: str, text: str) -> UUID:
    """Read an id from an address. Raises: Http404 for what is none."""
    try:
        return parse_id(kind, text)
    except BadId as error:
        raise Http404(_("There is nothing at this address.")) from error


def show(
    request: HttpRequest, actor: Actor, template: str, context: dict[str, Any], *, section: str = "", status: int = 200
) -> HttpResponse:
    """Render a page with what its frame needs."""
    frame = {
        "actor": actor,
        "role_word": ROLE.get(actor.role.value, actor.role.value),
        "may_create": actor.may("run.create"),
        "section": section,
    }
    return render(request, template, frame | context, status=status)
