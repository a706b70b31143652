"""The client for ordinary programs: a run is an iterator."""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

import httpx
import httpx_sse
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from runs.reading.errors import Cut
from runs.reading.items import Event, Gap, Note, Snapshot
from runs.reading.loop import Frames, OnCut, read_on
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


class Client:
    """A connection to one server.

    Args: base_url: as people open it; token: one that may read runs; http: your own httpx client (proxies, CA).
    """

    def __init__(self, base_url: str, token: str, *, http: httpx.Client | None = None) -> None:
        self._base_url, self._token = base_url, token
        self._http = http or httpx.Client()

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
    ) -> "Following":
        """Follow a run from a cursor on, or from its start, until its stream has ended.

        Args: transport: "auto" is WebSocket, then SSE, then JSON pages, whatever gets through; is_tail: stay past the
        end, for what is learnt later and for a new attempt; give_up_seconds: without progress, None for ever;
        silence_seconds: a connection that says nothing for so long is dead (heartbeats come each 15 s);
        on_cut(reason, seconds): a connection was lost, the next one comes after a wait.
        Raises: ValueError (base_url); StreamRefused and StreamLost while iterating.
        """
        address = Address(self._base_url, run, self._token, is_tail)
        line = Line(address, Reading(after, give_up_seconds=give_up_seconds), Ladder(transport), silence_seconds)
        return Following(self._http, line, on_cut)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Following:
    """An iterator over Event, Gap and Snapshot. Each is behind us, and in `cursor`, once the next one is asked for."""

    def __init__(self, http: httpx.Client, line: Line, on_cut: OnCut) -> None:
        self._line = line
        self._items = read_on(line.reading, lambda: _connect(http, line), on_cut=on_cut)

    @property
    def cursor(self) -> str | None:
        """Where to go on: the last item that was taken."""
        return self._line.reading.cursor

    @property
    def transport(self) -> Transport:
        """What it is read over right now."""
        return self._line.ladder.transport

    def close(self) -> None:
        """Leave; the run does not notice."""
        self._items.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event | Gap | Snapshot:
        for item in self._items:
            if not isinstance(item, Note):
                return item
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _connect(http: httpx.Client, line: Line) -> Frames:
    cut: Cut | None = None
    try:
        with closing(_LINKS[line.ladder.transport](http, line)) as frames:
            yield from frames
    except Cut as error:
        cut = error
    finally:
        line.ended()
    if (cut := line.judge(cut)) is not None:
        raise cut


def _over_websocket(http: httpx.Client, line: Line) -> Frames:
    replies = Replies(line.reading)
    try:
        with connect(line.address.socket_url(line.reading.cursor), **line.socket_options) as socket:
            silent_seconds = 0.0
            while silent_seconds < line.silence_seconds:
                try:
                    text = socket.recv(timeout=line.keepalive_seconds)
                except TimeoutError:
                    silent_seconds += line.keepalive_seconds
                    _say(socket, KEEPALIVE)
                    continue
                silent_seconds = 0.0
                frames = read_message(text)
                yield from frames
                if (reply := replies.to(frames, len(text))) is not None:
                    _say(socket, reply)
            raise Cut(f"nothing heard for {silent_seconds:.0f} s")
    except ConnectionClosed as error:
        yield last_word(error)
    except CUT_BY_SOCKET as error:
        raise cut_by_socket(error) from error


def _say(socket: ClientConnection, text: str) -> None:
    """Say something. The server may have closed meanwhile, but what it had sent before is still to be read."""
    with suppress(ConnectionClosed):
        socket.send(text)


def _over_sse(http: httpx.Client, line: Line) -> Frames:
    url, headers = line.address.stream_request(line.reading.cursor)
    try:
        with http.stream("GET", url, headers=headers, timeout=line.timeout) as response:
            if response.status_code == 204:
                yield ENDED
                return
            if not response.is_success:
                raise judge(response.status_code, response.headers, response.read())
            for event in httpx_sse.EventSource(response).iter_sse():
                if event.data:
                    yield from read_message(event.data)
    except CUT_BY_HTTP as error:
        raise cut_by_http(error) from error


def _over_pages(http: httpx.Client, line: Line) -> Frames:
    wants_snapshot = False
    try:
        while True:
            asked_at = time.monotonic()
            url = line.address.page_url(
                line.reading.cursor, wait_seconds=line.page_seconds, wants_snapshot=wants_snapshot
            )
            response = http.get(url, headers=line.address.headers, timeout=line.timeout)
            if wants_snapshot and response.status_code == GONE:
                raise Cut("neither the events nor a snapshot can be had")
            wants_snapshot = response.status_code == GONE
            if wants_snapshot:
                yield read_gone(response.content, line.reading.cursor)
                continue
            if not response.is_success:
                raise judge(response.status_code, response.headers, response.content)
            page = read_page(response.content, is_tail=line.address.is_tail)
            yield from page.frames
            time.sleep(page.pause_seconds(time.monotonic() - asked_at))
    except CUT_BY_HTTP as error:
        raise cut_by_http(error) from error


_LINKS: dict[Transport, Callable[[httpx.Client, Line], Frames]] = {
    "websocket": _over_websocket,
    "sse": _over_sse,
    "pages": _over_pages,
}
