"""The baseline: the least that commits events before it delivers them. Raw ASGI, no auth, no recovery, no worker.

    POST /runs {"key", "n", "rate"}   produces n events in this process, one INSERT for what has gathered
    POST /release/<key>               lets them begin
    WS   /ws/<key>                    all events from the first one on; a message is a JSON list of frames, as ours
    POST /stop

Run by uvicorn (`python -m tests.bench.reference --port N`). What one commit stored is one message: a bare server that
sends a message for each event delivers a tenth of it.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import uvicorn

from tests.bench.reference_shell import bridge

type Message = dict[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]

TABLE = """
drop table if exists bench_event;
create table bench_event (run text, seq int, data text, primary key (run, seq))"""
INSERT = "insert into bench_event select $1, e.seq, e.data from unnest($2::int[], $3::text[]) e(seq, data)"
READ = "select seq, data from bench_event where run = $1 and seq > $2 order by seq limit 5000"
COMPACT = json.JSONEncoder(separators=(",", ":")).encode
MOST_IN_COMMIT = 500
MOST_UNSTORED = 1000
BREATH = 50


class Stream:
    """The events of one run: what waits for a commit, how far it is stored, and who listens."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.stored = 0
        self.waiting: list[str] = []
        self.is_over = False
        self.released = asyncio.Event()
        self.filled = asyncio.Event()
        self.room = asyncio.Event()
        self.listeners: set[asyncio.Queue[tuple[int, str]]] = set()

    async def produce(self, n: int, rate: float) -> None:
        """Make n events like ours, at a rate a second or as fast as they are stored."""
        await self.released.wait()
        began = time.perf_counter()
        for index in range(n):
            if rate and (delay := began + index / rate - time.perf_counter()) > 0:
                await asyncio.sleep(delay)
            elif index % BREATH == BREATH - 1:
                await asyncio.sleep(0)
            delta = COMPACT({"i": index, "t": time.time()})
            self.waiting.append(COMPACT({"seq": index + 1, "type": "text.delta", "data": {"delta": delta}}))
            self.filled.set()
            if len(self.waiting) >= MOST_UNSTORED:
                self.room.clear()
                await self.room.wait()
        self.is_over = True
        self.filled.set()

    async def store(self, pool: asyncpg.Pool) -> None:
        """Commit what waits, then tell the listeners."""
        while not (self.is_over and not self.waiting):
            await self.filled.wait()
            self.filled.clear()
            while batch := self.waiting[:MOST_IN_COMMIT]:
                del self.waiting[: len(batch)]
                self.room.set()
                first = self.stored + 1
                await pool.execute(INSERT, self.key, list(range(first, first + len(batch))), batch)
                self.stored += len(batch)
                joined = ",\n".join(batch)
                for listener in self.listeners:
                    listener.put_nowait((self.stored, joined))
        for listener in self.listeners:
            listener.put_nowait((0, ""))

    async def read(self, pool: asyncpg.Pool) -> AsyncIterator[str]:
        """Give everything from the first event to the last, joined as it comes."""
        queue: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.listeners.add(queue)
        at = 0
        try:
            while at < self.stored:
                rows = await pool.fetch(READ, self.key, at)
                at = rows[-1][0]
                yield ",\n".join(row[1] for row in rows)
            while not (self.is_over and at >= self.stored and queue.empty()):
                last, joined = await queue.get()
                if last > at:
                    at = last
                    yield joined
        finally:
            self.listeners.discard(queue)


class Reference:
    """The ASGI application."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.pool: asyncpg.Pool | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["path"] == "/shell":
            await bridge(receive, send)
        elif scope["type"] == "websocket":
            await self._follow(scope["path"].rpartition("/")[2], receive, send)
        else:
            await self._command(scope["path"].split("/"), receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        dsn = os.environ["DATABASE_URL"]
        self.pool = await asyncpg.create_pool(dsn, min_size=4, max_size=8)
        await self.pool.execute(TABLE)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.pool.execute("drop table bench_event")
        await send({"type": "lifespan.shutdown.complete"})

    async def _follow(self, key: str, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        assert self.pool is not None  # connections come after the start-up
        async for joined in self.streams[key].read(self.pool):
            await send({"type": "websocket.send", "text": f"[{joined}]"})
        await send({"type": "websocket.close"})

    async def _command(self, parts: list[str], receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if parts[1] == "runs":
            asked = json.loads(body)
            self._begin(asked["key"], asked["n"], asked["rate"])
        elif parts[1] == "release":
            self.streams[parts[2]].released.set()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    def _begin(self, key: str, n: int, rate: float) -> None:
        assert self.pool is not None  # connections come after the start-up
        stream = self.streams[key] = Stream(key)
        for work in (stream.produce(n, rate), stream.store(self.pool)):
            task = asyncio.ensure_future(work)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    uvicorn.run(Reference(), host="127.0.0.1", port=port, log_level="warning", ws_per_message_deflate=False)


if __name__ == "__main__":
    main()
