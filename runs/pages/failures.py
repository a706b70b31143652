"""The pages for what went wrong: plain words, the next move, and the number to ask for help with."""

from django.core.exceptions import PermissionDenied, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from runs.conf import limits
from runs.pages.middleware import request_id_of


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400, or 413 where the body was too large."""
    if isinstance(exception, RequestDataTooBig | TooManyFilesSent | TooManyFieldsSent):
        return too_large(request)
    return _show(request, 400, _("That request made no sense to us"), _("Go back, reload the page, and try once more."))


def too_large(request: HttpRequest) -> HttpResponse:
    """413."""
    text = _("Nothing was stored. One document may have up to %(most)s MB; send fewer or smaller files at once.")
    return _show(request, 413, _("That is too large"), text % {"most": limits().max_upload_bytes >> 20})


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403. The message of the refusal is shown: it says who can help."""
    text = str(exception) if isinstance(exception, PermissionDenied) and str(exception) else ""
    return _show(request, 403, _("This is not for you to do"), text or _("Ask an admin of your workspace."))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 where the form's token was missing or old: mostly a page from before a sign-in."""
    text = _("The form was older than your session, so nothing was done. Reload the page and send it again.")
    return _show(request, 403, _("Please reload the page"), text)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, also for what belongs to somebody else: nobody can tell the two apart."""
    text = _("It does not exist, or you may not see it.")
    return _show(request, 404, _("There is nothing at this address"), text)


def broken(request: HttpRequest) -> HttpResponse:
    """500. Uses no database, no session and no user: any of them may be what broke."""
    return render(request, "500.html", {"request_id": request_id_of(request)}, status=500)


def _show(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    context = {"title": title, "text": text, "request_id": request_id_of(request)}
    return render(request, "pages/error.html", context, status=status)
