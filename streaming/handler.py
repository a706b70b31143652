"""Django for ASGI with one thread hop a request, and none held while a stream is open.

Django's own handler hops into a thread for each middleware, makes a thread for each request, and keeps that thread and
its database connection until the answer has ended: the 17th open SSE stream found the connection pool empty (seen).
Here middleware and view run in one go in a thread of the loop's pool; a streaming answer is then sent without either.
"""

from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase


class OneHopHandler(ASGIHandler):
    """Runs the whole middleware chain and the view in one thread. For synchronous views; answers may be async."""

    def __init__(self) -> None:
        super(ASGIHandler, self).__init__()  # not ASGIHandler's own: that one loads the chain for a coroutine
        self.load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        assert scope["type"] == "http"  # config/asgi.py routes the rest elsewhere
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answer in a thread; its database connection is free before anything is sent."""
        response: HttpResponseBase = await sync_to_async(self._answer, thread_sensitive=False)(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]  # Django's request_finished names it as its sender
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        return response

    def _answer(self, request: HttpRequest) -> Any:
        try:
            return self.get_response(request)
        finally:
            close_old_connections()
