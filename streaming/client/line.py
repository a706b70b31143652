"""The line to one run: its addresses over each transport, the headers that go along, and which transport is next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import httpx

from runs.reading.errors import Cut, OutOfStep
from runs.reading.machine import SILENCE_SECONDS, Reading

Transport = Literal["auto", "websocket", "sse", "pages"]
LADDER: tuple[Transport, ...] = ("websocket", "sse", "pages")
OPENING_SECONDS = 10.0  # until a connection is made
PAGE_SECONDS = 20.0  # how long a page may wait for its first event, at most
PAGE_EVENTS = 500
CLOSE_SECONDS = 1.0  # for the other side to close a WebSocket too
KEEPALIVE_SECONDS = 4.0  # between signs of life, where nothing else is said
# Heartbeats tell a dead connection, so no pings of ours; acknowledgements bound what is sent ahead, so no largest size.
SOCKET_OPTIONS: dict[str, Any] = {
    "subprotocols": ["app.v1"], "compression": None, "max_size": None, "close_timeout": CLOSE_SECONDS,
    "ping_interval": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """Where a run is read. The token goes in a header, never in an address: those are logged on the way."""

    base_url: str
    run: str
    token: str
    is_tail: bool = False

    def __post_init__(self) -> None:
        if urlsplit(self.base_url).scheme not in ("http", "https"):
            raise ValueError(f"{self.base_url!r} is no http(s) address of an Outlive server")

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}"}

    def socket_url(self, after: str | None) -> str:
        """Where the WebSocket is."""
        scheme, host, path, *_ = urlsplit(self.base_url)
        at = f"{path.rstrip('/')}/ws/v1/runs/{quote(self.run, safe='')}/"
        return urlunsplit(("wss" if scheme == "https" else "ws", host, at, urlencode(self._query(after)), ""))

    def events_url(self, **query: str | float | None) -> str:
        """Where SSE and pages are."""
        path = f"{self.base_url.rstrip('/')}/api/v1/runs/{quote(self.run, safe='')}/events"
        asked = urlencode({key: value for key, value in query.items() if value is not None})
        return f"{path}?{asked}" if asked else path

    def stream_request(self, after: str | None) -> tuple[str, dict[str, str]]:
        """Give the address and the headers of an SSE request."""
        headers = {**self.headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        if after is not None:
            headers["Last-Event-ID"] = after
        return self.events_url(tail=1 if self.is_tail else None), headers

    def page_url(self, after: str | None, *, wait_seconds: float, wants_snapshot: bool) -> str:
        """Give the address of the next page, or of a snapshot in place of what cannot be read any more."""
        if wants_snapshot:
            return self.events_url(snapshot=1)
        return self.events_url(after=after, limit=PAGE_EVENTS, wait=wait_seconds)

    def _query(self, after: str | None) -> Mapping[str, str]:
        return ({"after": after} if after else {}) | ({"tail": "1"} if self.is_tail else {})


class Ladder:
    """Which transport is tried next. Down to the next one where a transport is blocked, never from one that worked.

    A server that is away is no reason to go down: it is away over each of them.
    """

    def __init__(self, transport: Transport) -> None:
        self._rungs = LADDER if transport == "auto" else (transport,)
        self._at = 0
        self._has_worked = False

    @property
    def transport(self) -> Transport:
        """The one to use now."""
        return self._rungs[self._at]

    def worked(self) -> None:
        """It has got as far as `ready`."""
        self._has_worked = True

    def failed(self, cut: Cut) -> None:
        """A connection has ended; after the last rung the first one is tried again."""
        if cut.is_blocked and not self._has_worked:
            self._at = (self._at + 1) % len(self._rungs)


@dataclass(frozen=True, slots=True)
class Line:
    """One reader and the way to its run."""

    address: Address
    reading: Reading
    ladder: Ladder
    silence_seconds: float = SILENCE_SECONDS

    @property
    def timeout(self) -> httpx.Timeout:
        """For HTTP: nothing read for so long is the end of the connection."""
        return httpx.Timeout(OPENING_SECONDS, read=self.silence_seconds)

    @property
    def socket_options(self) -> dict[str, Any]:
        """For the WebSocket: what `connect` is to be told."""
        seconds = min(OPENING_SECONDS, self.silence_seconds)
        return {**SOCKET_OPTIONS, "additional_headers": self.address.headers, "open_timeout": seconds}

    @property
    def page_seconds(self) -> float:
        """For pages: how long one may wait for its first event; it is an answer long before silence is."""
        return min(PAGE_SECONDS, self.silence_seconds / 2)

    @property
    def keepalive_seconds(self) -> float:
        """For the WebSocket: how long to listen before a sign of life is due."""
        return min(KEEPALIVE_SECONDS, self.silence_seconds)

    def ended(self) -> None:
        """A connection is over, for whatever reason."""
        if self.reading.is_ready:
            self.ladder.worked()

    def judge(self, cut: Cut | None) -> Cut | None:
        """Learn from what ended it; what ended before `ready` with nonsense, or without a word, was blocked."""
        if not self.reading.is_ready and not self.reading.is_closed and (cut is None or isinstance(cut, OutOfStep)):
            cut = Cut("the connection ended before its first frame", is_blocked=True)
        if cut is not None:
            self.ladder.failed(cut)
        return cut
