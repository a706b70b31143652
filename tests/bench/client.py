"""The benchmark's own client: keep-alive HTTP, and SSE or WebSocket subscriptions, on bare asyncio protocols.

It does as little as it can per byte, so that what is measured is the server: about 0.1 ms a call.
"""

import asyncio
import base64
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

type OnData = Callable[[bytes], None]
HEAD_END = b"\r\n\r\n"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The server did not answer as it must for a measurement."""


@dataclass(frozen=True)
class Address:
    """Where a server is, and the headers that every request to it has."""

    base: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        return urlsplit(self.base).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.base).port or 80

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """Write a request. Header names are given with _ for -."""
        data = b"" if body is None else json.dumps(body).encode()
        lines = {"Host": f"{self.host}:{self.port}", **self.headers}
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return head.encode() + b"\r\n" + data


class Http:
    """One keep-alive connection for JSON calls, one after another."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Make a call and return its JSON answer, None for an empty one. Raises: Refused for 400 and above."""
        request = self.address.request(method, path, body, **headers)
        try:
            reader, head = await self._ask(request)
        except (ConnectionError, asyncio.IncompleteReadError):  # kept alive for longer than the server cares to
            self.close()
            reader, head = await self._ask(request)
        status = int(head[9:12])
        answer = await _read_body(reader, head)
        if b"\r\nconnection: close" in head:
            self.close()
        if status >= 400:
            raise Refused(f"{method} {path} -> {status} {answer[:300]!r}")
        return json.loads(answer) if answer else None

    async def _ask(self, request: bytes) -> tuple[asyncio.StreamReader, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.address.host, self.address.port)
        reader, writer = self._streams
        writer.write(request)
        return reader, (await reader.readuntil(HEAD_END)).lower()

    def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if b"transfer-encoding: chunked" in head:
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
    _, found, rest = head.partition(b"content-length:")
    return await reader.readexactly(int(rest.split(b"\r\n", 1)[0])) if found else b""


class Subscription(asyncio.Protocol):
    """One stream: `on_data` gets each WebSocket message, or whole lines of an SSE answer.

    opened: its status once the head is here. closed: set when the connection has ended. Attributes `status` and
    `received_bytes` may be read at any time.
    """

    def __init__(self, request: bytes, on_data: OnData) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[int] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.close_code: int | None = None
        self.status = 0
        self.received_bytes = 0
        self._request = request
        self._on_data = on_data
        self._buffer = b""
        self._lines = b""
        self._take: Callable[[], None] = self._take_head
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of its children
        self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(Refused("the connection ended before an answer"))
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._buffer = self._buffer + data if self._buffer else data
        self._take()

    def say(self, text: bytes) -> None:
        """Send a short text message over the socket."""
        if self._transport is not None and not self._transport.is_closing():
            self._send(TEXT, text)

    def say_bytes(self, data: bytes) -> None:
        """Send a short binary message over the socket."""
        if self._transport is not None and not self._transport.is_closing():
            self._send(BINARY, data)

    def stop_reading(self) -> None:
        """Read nothing any more, as a client that hangs."""
        assert self._transport is not None
        self._transport.pause_reading()

    def read_again(self) -> None:
        """Go on reading."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def cut(self) -> None:
        """End the connection without a word."""
        assert self._transport is not None
        self._transport.abort()

    def _take_head(self) -> None:
        head, found, rest = self._buffer.partition(HEAD_END)
        if not found:
            return
        self.status, self._buffer = int(head[9:12]), rest
        if self.status == 101:
            self._take = self._take_messages
        else:
            self._take = self._take_chunks if b"transfer-encoding: chunked" in head.lower() else self._take_plain
        if not self.opened.done():
            self.opened.set_result(self.status)
        self._take()

    def _take_plain(self) -> None:
        self._give_lines(self._buffer)
        self._buffer = b""

    def _take_chunks(self) -> None:
        buffer, at, parts = self._buffer, 0, []
        while (end := buffer.find(b"\r\n", at)) >= 0:
            size = int(buffer[at:end], 16)
            if size == 0:
                self.cut()
                break
            if len(buffer) < end + size + 4:
                break
            parts.append(buffer[end + 2 : end + 2 + size])
            at = end + size + 4
        self._buffer = buffer[at:]
        self._give_lines(b"".join(parts))

    def _give_lines(self, data: bytes) -> None:
        whole, newline, self._lines = (self._lines + data).rpartition(b"\n")
        if newline:
            self._on_data(whole)

    def _take_messages(self) -> None:
        buffer, at = self._buffer, 0
        while (frame := _frame_at(buffer, at)) is not None:
            kind, start, at = frame
            if kind == CLOSE:
                self.close_code = int.from_bytes(buffer[start : start + 2], "big")
                self.cut()
            elif kind == PING:
                self._send(PONG, buffer[start:at])
            else:
                self._on_data(buffer[start:at])
        self._buffer = buffer[at:]

    def _send(self, kind: int, payload: bytes) -> None:
        assert self._transport is not None
        assert len(payload) < 126  # only pongs and acknowledgements are sent
        self._transport.write(bytes([0x80 | kind, 0x80 | len(payload)]) + bytes(4) + payload)  # a zero mask is legal


def _frame_at(buffer: bytes, at: int) -> tuple[int, int, int] | None:
    """Find a whole server-to-client frame: its kind, where its payload starts, and where it ends."""
    have = len(buffer)
    if have - at < 2:
        return None
    size, start = buffer[at + 1] & 127, at + 2
    if size > 125:
        wide = 2 if size == 126 else 8
        if have < start + wide:
            return None
        size, start = int.from_bytes(buffer[start : start + wide], "big"), start + wide
    return (buffer[at] & 15, start, start + size) if have >= start + size else None


async def subscribe(address: Address, request: bytes, on_data: OnData) -> Subscription:
    """Connect, send the request, and return when the head of the answer is here. Raises: Refused."""
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(lambda: Subscription(request, on_data), address.host, address.port)
    await made.opened
    if made.status not in (101, 200, 201):
        raise Refused(f"the stream was answered with {made.status}")
    return made


def upgrade(address: Address, path: str) -> bytes:
    """Write the handshake of a WebSocket. No extension is offered, as our own page does not need one."""
    key = base64.b64encode(os.urandom(16)).decode()
    return address.request(
        "GET", path, Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13", Sec_WebSocket_Key=key
    )
