"""The one NinjaAPI object: /api/v1 with its authentication, its error envelope, OpenAPI and docs pages.

config/urls.py includes `api.urls`; streaming adds its router (`POST /runs`, events) there before it does so.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, URLResolver, path, re_path
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger

from runs.api import (
    artifacts,
    attempts,
    cancel_many,
    compensations,
    conversations,
    documents,
    operations,
    runs,
    shells,
)  # fmt: skip
from runs.api.answers import AsciiJsonRenderer
from runs.api.auth import AUTHENTICATION
from runs.api.bodies import StrictJsonParser
from runs.api.docs import error_codes, for_signed_in
from runs.api.errors import answer_error, envelope, install
from runs.api.problems import NoSuchThing, Problem
from runs.api.uploads import guard_upload

type View = Callable[..., HttpResponseBase] | Callable[..., Awaitable[HttpResponseBase]]

DESCRIPTION = """Runs whose life does not hang on a connection.

Closing a page is not stopping. *Stopping* is a request, *stopped* is a proof, *needs reconciliation* is the honest
third answer. Errors have one envelope; their codes are listed at `/api/v1/errors`."""


class OutliveApi(NinjaAPI):
    """NinjaAPI whose every answer is ours: also for an address or a method that does not exist."""

    def _get_urls(self) -> list[URLResolver | URLPattern]:
        patterns: list[URLResolver | URLPattern] = list(super()._get_urls())
        patterns.insert(0, path("errors", for_signed_in(error_codes), name="error-codes"))
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                # Ninja needs the name of the root to know its own path, but answers it with an HTML page.
                is_root = pattern.name == "api-root"
                pattern.callback = no_such_address if is_root else in_envelope(pattern.callback)
        patterns.append(re_path(r"^.*$", no_such_address, name="no-such-address"))
        return patterns


def in_envelope(view: View) -> View:
    """Refuse what is too large before anything reads it, and give a wrong method the envelope of all errors."""
    if iscoroutinefunction(view):
        coroutine = cast(Callable[..., Awaitable[HttpResponseBase]], view)

        @wraps(coroutine)
        async def answer_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            refused = _refuse_early(request)
            return refused or _finish(request, await coroutine(request, *args, **kwargs))

        return answer_async
    plain = cast(Callable[..., HttpResponseBase], view)

    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        refused = _refuse_early(request)
        return refused or _finish(request, plain(request, *args, **kwargs))

    # Ninja's docs views are partials, which have no name to wrap.
    answer.csrf_exempt = getattr(view, "csrf_exempt", False)  # type: ignore[attr-defined]
    return answer


def no_such_address(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
    """Answer for every address below /api/v1 that nobody else takes."""
    return answer_error(request, NoSuchThing("There is no such address in the API."))


# Without this a POST to a wrong address would be told about CSRF instead of the wrong address.
no_such_address.csrf_exempt = True  # type: ignore[attr-defined]


def _refuse_early(request: HttpRequest) -> HttpResponseBase | None:
    try:
        guard_upload(request)
    except Problem as problem:
        return answer_error(request, problem)
    return None


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.status_code != 405:
        return response
    answer = envelope(request, status=405)
    answer["Allow"] = response.headers.get("Allow", "")
    return answer


api = OutliveApi(
    title="Outlive",
    version="1.0.0",
    description=DESCRIPTION,
    urls_namespace="api",
    auth=AUTHENTICATION,
    parser=StrictJsonParser(),
    renderer=AsciiJsonRenderer(),
    docs=Swagger(settings={"persistAuthorization": False, "tryItOutEnabled": False}),
    docs_decorator=for_signed_in,
)
install(api)
for part in (runs, cancel_many, attempts, conversations, operations, compensations, artifacts, documents, shells):
    api.add_router("", part.router)
