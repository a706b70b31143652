"""A page of events as JSON, read at once or waited for."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse

from runs.ids import text_id
from streaming.access import Who
from streaming.current import current_hub
from streaming.hub import DATABASE_ERRORS
from streaming.protocol import Cursor
from streaming.reader import Reader
from streaming.reads import PAGE, Page, UnknownRun, page_of, page_params, read_page
from streaming.wires import TEXT

HEADERS = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a caller wants: at most `limit` events after a cursor, waiting up to `wait_seconds` for the first."""

    run_id: UUID
    after: Cursor
    limit: int
    wait_seconds: float

    def params(self) -> dict[str, Any]:
        """Give the parameters of the statement."""
        return page_params(self.run_id, self.after.stream_id, self.after.seq, limit=self.limit)


def read_page_now(connection: Any, asked: PageRequest) -> Page:
    """Read a page on Django's connection. Raises: UnknownRun."""
    with connection.cursor() as cursor:
        cursor.execute(PAGE, asked.params())
        return page_of(cursor.fetchall(), asked.run_id, asked.after.stream_id)


def write_page(asked: PageRequest, page: Page) -> bytes:
    """Write a page; `next_cursor` is where to go on, also when the page is empty."""
    row = page.row
    here = page.last if page.chunk is not None else asked.after.seq
    about = {
        "object": "list",
        "has_more": here < row.last_seq,
        "next_cursor": str(Cursor(asked.after.stream_id, here)),
        "stream_id": text_id("st", row.stream_id),
        "head_seq": row.last_seq,
        "status": row.status,
        "is_ended": row.is_ended,
    }
    data = page.chunk.body if page.chunk is not None else b""
    return json.dumps(about)[:-1].encode() + b',"data":[' + data + b"]}"


def answer_page(asked: PageRequest, page: Page, who: Who) -> HttpResponseBase:
    """Answer with a page; an empty one of a run that goes on is waited for, without holding a thread."""
    if page.chunk is not None or asked.wait_seconds <= 0 or page.row.is_ended:
        return HttpResponse(write_page(asked, page), content_type="application/json", headers=HEADERS)
    content = _wait(asked, page, who)
    return StreamingHttpResponse(content, content_type="application/json", headers=HEADERS)


async def _wait(asked: PageRequest, page: Page, who: Who) -> AsyncGenerator[bytes, None]:
    reader = Reader(TEXT, who=who)
    with contextlib.suppress(TimeoutError, UnknownRun, *DATABASE_ERRORS):
        hub = await current_hub()
        stream = await hub.join_stream(asked.run_id, asked.after.stream_id, reader)
        try:
            async with asyncio.timeout(asked.wait_seconds):
                while page.chunk is None and not page.row.is_ended and reader.ending is None:
                    page = await read_page(hub.db, asked.run_id, asked.after.stream_id, asked.after.seq)
                    if page.row.stream_id != asked.after.stream_id:
                        break  # a new attempt: the same cursor gets 410 next time
                    if page.chunk is None and not page.row.is_ended:
                        await reader.wait()
        finally:
            hub.leave(stream, reader)
    yield write_page(asked, page)
