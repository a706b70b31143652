"""A page of events as JSON, read at once or waited for."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse

from runs.ids import text_id
from runs.states import ENDED, Status
from streaming.access import Who
from streaming.current import current_hub
from streaming.hub import DATABASE_ERRORS, TooManyStreams
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


def answer_snapshot(view: Mapping[str, Any], seq: int) -> HttpResponseBase:
    """Answer with a page that holds the view of a run in place of its events; all of it is from one statement."""
    cursor = f"{view['stream_id']}:{seq}"
    page = {
        "object": "list",
        "data": [],
        "snapshot": {"type": "snapshot", "cursor": cursor, "part": 1, "parts": 1, "view": view},
        "has_more": False,
        "next_cursor": cursor,
        "stream_id": view["stream_id"],
        "head_seq": seq,
        "status": view["status"],
        "is_ended": Status(view["status"]) in ENDED,
    }
    return HttpResponse(json.dumps(page, separators=(",", ":")), content_type="application/json", headers=HEADERS)


async def _wait(asked: PageRequest, page: Page, who: Who) -> AsyncGenerator[bytes, None]:
    reader = Reader(TEXT, who=who)
    with contextlib.suppress(TimeoutError, UnknownRun, *DATABASE_ERRORS):
        hub = await current_hub()
        try:
            stream = await hub.join_stream(asked.run_id, asked.after.stream_id, reader)
        except TooManyStreams:  # it is one too many to be told at once, not to wait and look
            await asyncio.sleep(asked.wait_seconds)
            yield write_page(asked, await read_page(hub.db, asked.run_id, asked.after.stream_id, asked.after.seq))
            return
        try:
            async with asyncio.timeout(asked.wait_seconds):
                while page.chunk is None and not page.row.is_ended and reader.ending is None:
                    page = await read_page(hub.db, asked.run_id, asked.after.stream_id, asked.after.seq)
                    if page.row.stream_id != asked.after.stream_id or not page.follows(asked.after.seq):
                        page = replace(page, chunk=None)  # the answer has begun: the same cursor gets 410 next time
                        break
                    if page.chunk is None and not page.row.is_ended:
                        await reader.wait()
        finally:
            hub.leave(stream, reader)
    yield write_page(asked, page)
