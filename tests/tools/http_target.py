"""A small real HTTP server whose answers a test writes, down to the byte at which it hangs up."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

HANG_UP = b""


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class HttpTarget:
    """`answer` gets each request and returns the bytes to send; empty = reset the connection, None = never answer."""

    port: int = 0
    answer: Callable[[Request], bytes | None] = lambda _: reply(200)
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            pairs = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(method, path, headers, body)
            self.requests.append(request)
            answer = self.answer(request)
            if answer is None:
                await reader.read()
            elif answer == HANG_UP:
                writer.transport.abort()
            else:
                writer.write(answer)
                await writer.drain()
        writer.close()


def reply(status: int, body: Any = None, **headers: str) -> bytes:
    """Return a whole answer; a body that is no bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


@contextlib.asynccontextmanager
async def an_http_target(answer: Callable[[Request], bytes | None]) -> AsyncIterator[HttpTarget]:
    target = HttpTarget(answer=answer)
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    async with server:
        yield target
        server.close()


def unused_port() -> int:
    """Return a port that refuses connections."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
