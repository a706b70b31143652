"""The pages that explain the API: only for people and programs that may call it, and without a foreign script.

Swagger UI comes from ninja's own package as static files; its page has no inline script, so our CSP holds.
"""

from collections.abc import Callable

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from runs.api.auth import identify
from runs.api.errors import answer_error
from runs.api.problems import NotSignedIn, Problem


def for_signed_in(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Show the view only to callers of the API; a browser is sent to the login page."""

    def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        try:
            actor = identify(request)
        except Problem as problem:
            return answer_error(request, problem)
        if actor is None:
            if "text/html" in request.headers.get("Accept", ""):
                return redirect_to_login(request.get_full_path())
            return answer_error(request, NotSignedIn(_("Sign in, or send a valid token.")))
        return view(request, *args, **kwargs)

    return answer


def error_codes(request: HttpRequest) -> HttpResponse:
    """List the error codes; `doc_url` of an error points into this page."""
    rows = format_html_join(
        "\n", '<tr id="{}"><td><code>{}</code></td><td>{}</td><td>{}</td></tr>',
        ((code, code, status, text) for code, status, text in codes()),
    )  # fmt: skip
    page = format_html(
        '<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title></head>'
        "<body><h1>{title}</h1><table><thead><tr><th>code</th><th>HTTP</th><th></th></tr></thead>"
        "<tbody>{rows}</tbody></table></body></html>",
        title=_("Error codes"), rows=rows,
    )  # fmt: skip
    return HttpResponse(page)


def codes() -> list[tuple[str, int, str]]:
    """Say what each code means and what to do next."""
    return [
        ("invalid_request", 400, _("The request cannot be read as it is; `param` names the place.")),
        ("invalid_json", 400, _("The body is no strict JSON in UTF-8.")),
        ("invalid_input", 400, _("A field has a value that is not taken; `param` names it.")),
        ("unknown_agent", 400, _("No agent has this name here.")),
        ("unknown_parameter", 400, _("The query has a parameter that nobody reads.")),
        ("invalid_cursor", 400, _("The cursor is not of this list; start without one.")),
        ("if_match_required", 400, _("Read it first, then send the version that you saw as If-Match.")),
        ("not_signed_in", 401, _("Sign in, or send a valid token.")),
        ("invalid_token", 401, _("The token is unknown, expired or revoked, or its owner is not active.")),
        ("forbidden", 403, _("Your role or your token does not cover this.")),
        ("no_workspace", 403, _("You belong to no workspace.")),
        ("csrf_failed", 403, _("A browser's request without the security token of its page.")),
        ("not_found", 404, _("It does not exist, or not for you.")),
        ("method_not_allowed", 405, _("The address is right, the method is not; see Allow.")),
        ("too_late", 409, _("The question was closed before; `details.accepted` is the answer that was taken.")),
        ("cannot_compensate", 409, _("The tool does not know how to undo what it did.")),
        ("not_committed", 409, _("Only what is known to have happened can be undone.")),
        ("already_compensated", 409, _("It is being undone already, or was; `details.compensation_id` names it.")),
        ("not_unknown", 409, _("It is decided already, or not sent yet; there is nothing to decide.")),
        ("operation_decided", 409, _("It is known what became of the operation; nothing is looked up any more.")),
        ("cannot_look_up", 409, _("The tool offers no look-up; a person has to look at the target.")),
        ("not_an_agents_shell", 409, _("No agent has opened this shell; control of it goes by its socket.")),
        ("shell_ended", 409, _("The shell has ended, or is ending; nobody takes it over any more.")),
        ("shell_held", 409, _("Somebody else has taken the shell over; only they hand it back.")),
        ("not_yet", 409, _("What was sent may still arrive, so nobody can say yet that it did not happen.")),
        ("has_receipt", 409, _("A receipt says that it happened, so it cannot be settled as not happened.")),
        ("run_is_child", 409, _("A run that another one began is retried with that one.")),
        ("conversation_busy", 409, _("`details.run_id` of this conversation is active; say enqueue or interrupt.")),
        ("already_started", 409, _("The message has become the run `details.run_id`; stop that one.")),
        ("run_not_terminal", 409, _("The run has not ended; only then can it be retried.")),
        ("run_needs_reconciliation", 409, _("Settle what is unknown first; `details.operation_ids` names it.")),
        ("operation_contradicted", 409, _("An operator must review `details.operation_ids` before a retry.")),
        ("cursor_expired", 410, _("Events were deleted, or are of another stream; see `details` and the protocol.")),
        ("stale_version", 412, _("Somebody else changed it since you read it.")),
        ("too_large", 413, _("More bytes than are taken; nothing was stored.")),
        ("unsupported_media_type", 415, _("Send JSON, or multipart/form-data for documents.")),
        ("idempotency_mismatch", 422, _("The Idempotency-Key was used with another body; the first run stands.")),
        ("internal_error", 500, _("Our fault; the request id finds it in the logs.")),
        ("busy", 503, _("Another decision held the row; nothing was done. Try again in a moment.")),
        ("unavailable", 503, _("The database or Redis is not reachable; nothing was half-done.")),
    ]
