"""Django for ASGI with one thread hop a request, and none held while a stream is open.

Django's own handler hops into a thread for each middleware, for each of its two signals and for the end of the answer,
makes a thread for each request, and keeps that thread and its database connection until the answer has ended: the 17th
open SSE stream found the connection pool empty (seen). Here all of that happens in one go in a thread of the loop's
pool; a streaming answer is then sent without a thread.
"""

import asyncio
from contextlib import closing
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix


class OneHopHandler(ASGIHandler):
    """Runs the whole middleware chain and the view in one thread. For synchronous views; answers may be async."""

    def __init__(self) -> None:
        super(ASGIHandler, self).__init__()  # not ASGIHandler's own: that one loads the chain for a coroutine
        self.load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        assert scope["type"] == "http"  # config/asgi.py routes the rest elsewhere
        await self.handle(scope, receive, send)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the request, answer it, send the answer; a client that leaves meanwhile ends that."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with closing(body):
            set_script_prefix(get_script_prefix(scope))
            request, refusal = self.create_request(scope, body)
            if request is None:
                assert refusal is not None  # one of both is there
                await self.send_response(refusal, send)
                return
            try:
                async with asyncio.TaskGroup() as group:
                    leaving = group.create_task(self.listen_for_disconnect(receive))
                    await self._answer_and_send(request, scope, send)
                    leaving.cancel()
            except* RequestAborted:
                pass

    async def _answer_and_send(self, request: HttpRequest, scope: Any, send: Any) -> None:
        response: HttpResponseBase = await sync_to_async(self._answer, thread_sensitive=False)(request, scope)
        if not response.streaming:
            await self.send_response(response, send)
            return
        try:
            await self.send_response(response, send)
        finally:
            await sync_to_async(response.close, thread_sensitive=False)()

    def _answer(self, request: HttpRequest, scope: Any) -> HttpResponseBase:
        """Answer as a WSGI server would, in this thread; its database connection is free before anything is sent."""
        sender = self.__class__
        request_started.send(sender=sender, scope=scope)  # looks after the connections of this thread
        response: HttpResponseBase = self.get_response(request)
        response._handler_class = sender  # type: ignore[attr-defined]  # Django's request_finished names it as its sender
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()  # what it says is made; this ends the request and sends request_finished
        else:
            close_old_connections()
        return response
