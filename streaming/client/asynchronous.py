"""The client for asyncio: a run is an asynchronous iterator. Leave it by `async with`, a break or a cancellation."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self

import httpx
import httpx_sse
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from runs.reading.errors import Cut
from runs.reading.items import Event, Gap, Item, Note, Snapshot
from runs.reading.loop import OnCut
from runs.reading.machine import SILENCE_SECONDS, Reading, read_message
from streaming.client.answers import ENDED, GONE, judge, read_gone, read_page
from streaming.client.cuts import CUT_BY_HTTP, CUT_BY_SOCKET, cut_by_http, cut_by_socket, last_word
from streaming.client.line import (
    Address,
    Ladder,
    Line,
    Transport,
)
from streaming.client.replies import KEEPALIVE, Replies

type Frames = AsyncGenerator[Any]


class AsyncClient:
    """A connection to one server. Arguments as Client's; `http` is an httpx.AsyncClient."""

    def __init__(self, base_url: str, token: str, *, http: httpx.AsyncClient | None = None) -> None:
        self._base_url, self._token = base_url, token
        self._http = http or httpx.AsyncClient()

    def follow(
        self,
        run: str,
        after: str | None = None,
        *,
        transport: Transport = "auto",
        is_tail: bool = False,
        give_up_seconds: float | None = 300.0,
        silence_seconds: float = SILENCE_SECONDS,
        on_cut: OnCut = lambda reason, wait_seconds: None,
    ) -> "AsyncFollowing":
        """Follow a run from a cursor on; arguments and errors are those of Client.follow."""
        address = Address(self._base_url, run, self._token, is_tail)
        line = Line(address, Reading(after, give_up_seconds=give_up_seconds), Ladder(transport), silence_seconds)
        return AsyncFollowing(self._http, line, on_cut)

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncFollowing:
    """An asynchronous iterator over Event, Gap and Snapshot; `cursor` moves when the next one is asked for."""

    def __init__(self, http: httpx.AsyncClient, line: Line, on_cut: OnCut) -> None:
        self._line = line
        self._items = _read_on(http, line, on_cut)

    @property
    def cursor(self) -> str | None:
        """Where to go on: the last item that was taken."""
        return self._line.reading.cursor

    @property
    def transport(self) -> Transport:
        """What it is read over right now."""
        return self._line.ladder.transport

    async def aclose(self) -> None:
        """Leave; the run does not notice."""
        await self._items.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event | Gap | Snapshot:
        async for item in self._items:
            if not isinstance(item, Note):
                return item
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


async def _read_on(http: httpx.AsyncClient, line: Line, on_cut: OnCut) -> AsyncGenerator[Item]:
    """Read over any number of connections: runs/reading/loop.py, for asyncio."""
    reading = line.reading
    while not reading.is_over:
        reading.begin()
        cut = Cut("the server closed the stream")
        try:
            async with aclosing(_connect(http, line)) as frames:
                async for frame in frames:
                    for item in reading.take(frame):
                        yield item
                        reading.applied(item)
                    if reading.is_closed:
                        break
        except Cut as error:
            cut = error
        if not reading.is_over:
            wait_seconds = reading.lost(str(cut), now=time.monotonic(), retry_after=cut.retry_after)
            on_cut(str(cut), wait_seconds)
            await asyncio.sleep(wait_seconds)


async def _connect(http: httpx.AsyncClient, line: Line) -> Frames:
    cut: Cut | None = None
    try:
        async with aclosing(_LINKS[line.ladder.transport](http, line)) as frames:
            async for frame in frames:
                yield frame
    except Cut as error:
        cut = error
    finally:
        line.ended()
    if (cut := line.judge(cut)) is not None:
        raise cut


async def _over_websocket(http: httpx.AsyncClient, line: Line) -> Frames:
    replies = Replies(line.reading)
    try:
        async with connect(line.address.socket_url(line.reading.cursor), **line.socket_options) as socket:
            silent_seconds = 0.0
            while silent_seconds < line.silence_seconds:
                try:
                    async with asyncio.timeout(line.keepalive_seconds):
                        text = await socket.recv()
                except TimeoutError:
                    silent_seconds += line.keepalive_seconds
                    await _say(socket, KEEPALIVE)
                    continue
                silent_seconds = 0.0
                frames = read_message(text)
                for frame in frames:
                    yield frame
                if (reply := replies.to(frames, len(text))) is not None:
                    await _say(socket, reply)
            raise Cut(f"nothing heard for {silent_seconds:.0f} s")
    except ConnectionClosed as error:
        yield last_word(error)
    except CUT_BY_SOCKET as error:
        raise cut_by_socket(error) from error


async def _say(socket: ClientConnection, text: str) -> None:
    """Say something. The server may have closed meanwhile, but what it had sent before is still to be read."""
    with suppress(ConnectionClosed):
        await socket.send(text)


async def _over_sse(http: httpx.AsyncClient, line: Line) -> Frames:
    url, headers = line.address.stream_request(line.reading.cursor)
    try:
        async with http.stream("GET", url, headers=headers, timeout=line.timeout) as response:
            if response.status_code == 204:
                yield ENDED
                return
            if not response.is_success:
                raise judge(response.status_code, response.headers, await response.aread())
            async with aclosing(httpx_sse.EventSource(response).aiter_sse()) as events:
                async for event in events:
                    if event.data:
                        for frame in read_message(event.data):
                            yield frame
    except CUT_BY_HTTP as error:
        raise cut_by_http(error) from error


async def _over_pages(http: httpx.AsyncClient, line: Line) -> Frames:
    wants_snapshot = False
    try:
        while True:
            asked_at = time.monotonic()
            url = line.address.page_url(
                line.reading.cursor, wait_seconds=line.page_seconds, wants_snapshot=wants_snapshot
            )
            response = await http.get(url, headers=line.address.headers, timeout=line.timeout)
            if wants_snapshot and response.status_code == GONE:
                raise Cut("neither the events nor a snapshot can be had")
            wants_snapshot = response.status_code == GONE
            if wants_snapshot:
                yield read_gone(response.content, line.reading.cursor)
                continue
            if not response.is_success:
                raise judge(response.status_code, response.headers, response.content)
            page = read_page(response.content, is_tail=line.address.is_tail)
            for frame in page.frames:
                yield frame
            await asyncio.sleep(page.pause_seconds(time.monotonic() - asked_at))
    except CUT_BY_HTTP as error:
        raise cut_by_http(error) from error


_LINKS: dict[Transport, Callable[[httpx.AsyncClient, Line], Frames]] = {
    "websocket": _over_websocket,
    "sse": _over_sse,
    "pages": _over_pages,
}
