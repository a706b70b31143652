"""A run's stream as an HTTP answer: server-sent events, and a JSON page that is waited for."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from streaming.access import Who
from streaming.current import current_hub
from streaming.flow import CONNECTION
from streaming.follow import Opening, follow
from streaming.presence import Presence
from streaming.protocol import RETRY_MS
from streaming.reader import Reader
from streaming.wires import SSE

HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def answer_stream(
    request: HttpRequest, opening: Opening, who: Who, *, status: int = 200, is_control: bool = False
) -> HttpResponseBase:
    """Answer with the events of a run; is_control: the stream of its own create, whose loss matters to the run."""
    connection = getattr(request, "scope", {}).get("extensions", {}).get(CONNECTION)
    content = _events(opening, who, connection, is_control=is_control)
    return StreamingHttpResponse(content, status=status, content_type="text/event-stream", headers=HEADERS)


async def _events(opening: Opening, who: Who, connection: Any, *, is_control: bool) -> AsyncGenerator[bytes, None]:
    reader = Reader(SSE, who=who)
    task = asyncio.current_task()
    if connection is not None:
        connection.watch_peer()
        reader.evict = connection.abort
    elif task is not None:
        reader.evict = task.cancel
    hub = await current_hub()
    yield b"retry: %d\n\n" % RETRY_MS
    async with contextlib.AsyncExitStack() as stack:
        sign: Callable[[], None] | None = None
        if is_control:
            presence = Presence(hub.db, opening.run_id, who.user_id)
            stack.push_async_callback(presence.detach)
            if await presence.attach() is not None:
                for keeping in (presence.keep(), presence.beat(reader)):
                    stack.callback(asyncio.ensure_future(keeping).cancel)
                sign = presence.sign_of_life
        items = follow(hub, opening, reader)
        await stack.enter_async_context(contextlib.aclosing(items))
        async for item in items:
            yield item
            if sign is not None:
                # The transport took it: with TCP_USER_TIMEOUT set, a client that vanished fails within 20 s.
                sign()
