"""The one table from errors to HTTP, and the one envelope in which every error of the API is answered."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest as DjangoBadRequest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation, TooManyFilesSent
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.utils.translation import gettext as _
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from runs import errors as domain
from runs.api.answers import json_answer
from runs.api.problems import Problem
from runs.api.validation import first_fault
from runs.ids import BadId
from runs.pages.middleware import request_id_of

logger = logging.getLogger(__name__)

KIND_OF_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    412: "conflict_error",
    422: "idempotency_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How a class of errors is answered. `is_retryable`: the same request with the same key may be sent again."""

    status: int
    is_retryable: bool = False
    retry_after_seconds: int | None = None


# The first class of the error's own line of ancestors that stands here decides.
RULES: Mapping[type[Exception], Rule] = {
    domain.NotFound: Rule(404),
    BadId: Rule(404),
    Http404: Rule(404),
    domain.NotAllowed: Rule(403),
    domain.TooLarge: Rule(413),
    domain.InvalidInput: Rule(400),
    domain.IdempotencyMismatch: Rule(422),
    domain.TooLate: Rule(409),
    domain.StaleVersion: Rule(412),
    domain.CannotLookUp: Rule(409),
    domain.HandsNotChanged: Rule(409),
    domain.NotYet: Rule(409),
    domain.HasReceipt: Rule(409),
    domain.Busy: Rule(503, is_retryable=True, retry_after_seconds=1),
    domain.OutliveError: Rule(409),
    AuthenticationError: Rule(401),
    RequestDataTooBig: Rule(413),
    TooManyFilesSent: Rule(413),
    SuspiciousOperation: Rule(400),
    DjangoBadRequest: Rule(400),
    MultiPartParserError: Rule(400),
    ValidationError: Rule(400),
    OperationalError: Rule(503, is_retryable=True, retry_after_seconds=2),
    InterfaceError: Rule(503, is_retryable=True, retry_after_seconds=2),
    Exception: Rule(500, is_retryable=True),
}

CODE_OF_STATUS = {
    400: "invalid_request",
    401: "not_signed_in",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal_error",
    503: "unavailable",
}


def install(api: NinjaAPI) -> None:
    """Make `api` answer every error by the table; nothing falls through to Django's HTML pages."""
    for known in (*RULES, Problem, HttpError):
        api.add_exception_handler(known, answer_error)


def answer_error(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    """Answer an error that was raised anywhere below a call of the API."""
    assert isinstance(error, Exception)
    if isinstance(error, HttpError) and isinstance(error.__cause__, Problem):
        error = error.__cause__  # ninja wraps what its body parser raises
    if isinstance(error, Problem):
        return envelope(
            request, status=error.status, code=error.code, message=error.message, param=error.param,
            details=error.details,
        )  # fmt: skip
    rule = next(RULES[cls] for cls in type(error).__mro__ if cls in RULES)
    if rule.status == 500:
        logger.error("api.failed", exc_info=error, extra={"path": request.path, "method": request.method})
    elif rule.status == 503:
        logger.warning("api.unavailable", exc_info=error, extra={"path": request.path})
    code, message, param, details = _describe(error, rule.status)
    return envelope(request, status=rule.status, code=code, message=message, param=param, details=details, rule=rule)


def envelope(
    request: HttpRequest,
    *,
    status: int,
    code: str | None = None,
    message: str | None = None,
    param: str | None = None,
    details: Mapping[str, Any] | None = None,
    rule: Rule | None = None,
) -> HttpResponse:
    """Write the error envelope of API.md section 2."""
    code = code or CODE_OF_STATUS.get(status, "error")
    response = json_answer(
        {
            "error": {
                "type": KIND_OF_STATUS.get(status, "invalid_request_error"),
                "code": code,
                "message": message or _message_of(status),
                "param": param,
                "doc_url": f"{settings.BASE_URL}/api/v1/errors#{code}",
                "request_id": request_id_of(request),
                "retryable": rule is not None and rule.is_retryable,
                "details": dict(details or {}),
            }
        },
        status=status,
    )
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="outlive"'
    if rule is not None and rule.retry_after_seconds is not None:
        response["Retry-After"] = str(rule.retry_after_seconds)
    return response


def _describe(error: Exception, status: int) -> tuple[str | None, str | None, str | None, Mapping[str, Any]]:
    if isinstance(error, ValidationError):
        fault = first_fault(error.errors)
        return "invalid_input", fault.message, fault.param, {"faults": fault.all_faults}
    if isinstance(error, domain.InvalidInput):
        return error.code, error.message, error.field, {}
    if isinstance(error, domain.OutliveError):
        return error.code, error.message, None, error.details
    return None, None, None, {}


def _message_of(status: int) -> str:
    return {
        400: _("The request could not be read."),
        401: _("Sign in, or send a valid token: `Authorization: Bearer …`."),
        403: _("You may not do this."),
        404: _("There is no such thing here, or you may not see it."),
        405: _("This address does not take that method."),
        413: _("That is more than this address takes; nothing was stored."),
        415: _("This address does not read that kind of body."),
        503: _("The database or Redis is not reachable right now. Nothing was half-done; try again in a moment."),
    }.get(status) or _("Something went wrong on our side. The request id finds it in the logs.")
