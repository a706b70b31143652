"""A loopback model server that speaks scripted bytes: held at any byte, cut, or refused; it sees the socket close."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tools.models.protocol import ModelProvider, ModelRequest, StreamItem, TextDelta
from tools.scope import Scope


class Hold:
    """A place in the script at which the server waits until the test says go, or the client leaves."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()


@dataclass
class Wire:
    """The script and what was seen. script: bytes to send, Hold to wait, None to cut the connection."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    script: list[bytes | Hold | None] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    request_headers: list[dict[str, str]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request and play the script."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(json.loads(body))
        self.request_headers.append(headers)
        kind = "text/event-stream" if self.status == 200 else "application/json"
        lines = [f"HTTP/1.1 {self.status} X", f"content-type: {kind}", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        watching = asyncio.ensure_future(reader.read(1))
        watching.add_done_callback(lambda _: self.closed.set())
        for part in self.script:
            if isinstance(part, Hold):
                part.reached.set()
                released = asyncio.ensure_future(part.go.wait())
                await asyncio.wait({watching, released}, return_when=asyncio.FIRST_COMPLETED)
                released.cancel()
                if watching.done():
                    break
            elif part is None:
                writer.transport.abort()
                break
            elif part:
                writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                await writer.drain()
        else:
            writer.write(b"0\r\n\r\n")
        watching.cancel()
        writer.close()


@asynccontextmanager
async def a_wire(*script: bytes | Hold | None, status: int = 200, **headers: str) -> AsyncIterator[Wire]:
    """Serve the script on a free port."""
    wire = Wire(status=status, script=list(script), headers={k.replace("_", "-"): v for k, v in headers.items()})
    async with await asyncio.start_server(wire.serve, "127.0.0.1", 0) as server:
        wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield wire


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None, usage: Any = None) -> bytes:
    """One chat completion chunk as a server-sent event."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub-1", "choices": choices}
    return b"data: " + json.dumps(value | ({"usage": usage} if usage else {})).encode() + b"\n\n"


OPENAI_END = [
    chunk({}, finish="stop"),
    chunk(usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}),
    b"data: [DONE]\n\n",
]


def claude(kind: str, **values: Any) -> bytes:
    """One event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n".encode()


def claude_start() -> bytes:
    """The opening event."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub-1", "content": []}
    rest = {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 1}}
    return claude("message_start", message=message | rest)


def claude_text(text: str, index: int = 0) -> bytes:
    """A text delta."""
    return claude("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


CLAUDE_TEXT_START = claude("content_block_start", index=0, content_block={"type": "text", "text": ""})


def claude_end(reason: str = "end_turn") -> list[bytes]:
    """The closing events."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [claude("message_delta", delta=delta, usage={"output_tokens": 3}), claude("message_stop")]


async def collect(provider: ModelProvider, request: ModelRequest, scope: Scope | None = None) -> list[StreamItem]:
    """Return all items."""
    return [item async for item in provider.stream(request, scope=scope or Scope())]


def text_of(items: list[StreamItem]) -> str:
    """Return the joined text."""
    return "".join(item.text for item in items if isinstance(item, TextDelta))


async def read_into(seen: list[StreamItem], stream: AsyncIterator[StreamItem]) -> None:
    """Add what comes to `seen`, so that it can be looked at when the stream raises."""
    async for item in stream:
        seen.append(item)  # noqa: PERF401 - a comprehension would lose what came before the error
