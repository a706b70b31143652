"""The request id: one name for a request in the answer, in every log line and in an error report."""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from structlog.contextvars import bound_contextvars

from runs.ids import new_id

HEADER = "X-Request-Id"
# What a proxy or a client may choose: nothing that could break a header, a log line or a page.
_ACCEPTED = re.compile(r"req_[A-Za-z0-9_-]{8,64}")

type Response = HttpResponseBase
type GetResponse = Callable[[HttpRequest], Response] | Callable[[HttpRequest], Awaitable[Response]]


def request_id_of(request: HttpRequest) -> str:
    """Say the id of this request; an empty string where the middleware is not installed."""
    return str(getattr(request, "request_id", ""))


def choose_request_id(offered: str | None) -> str:
    """Keep the caller's `req_…` id when it is well formed, else make a new one."""
    if offered is not None and _ACCEPTED.fullmatch(offered):
        return offered
    return f"req_{new_id().hex}"


class RequestIdMiddleware:
    """Give each request an id: `request.request_id`, the log context, and the `X-Request-Id` of the answer.

    Works in both stacks without a thread hop: it is a coroutine where the next layer is one.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        """Answer the request under its id."""
        if self.is_async:
            return self._answer_async(request)
        with self._named(request) as request_id:
            response = self.get_response(request)
            assert isinstance(response, HttpResponseBase)  # the sync stack awaits nothing
            response[HEADER] = request_id
            return response

    async def _answer_async(self, request: HttpRequest) -> Response:
        with self._named(request) as request_id:
            answer = self.get_response(request)
            assert not isinstance(answer, HttpResponseBase)  # the async stack always returns an awaitable
            response = await answer
            response[HEADER] = request_id
            return response

    @contextmanager
    def _named(self, request: HttpRequest) -> Iterator[str]:
        request_id = choose_request_id(request.headers.get(HEADER))
        request.request_id = request_id  # type: ignore[attr-defined]
        with bound_contextvars(request_id=request_id):
            yield request_id
