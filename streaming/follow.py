"""follow(): one way to read a run's stream, for WebSocket and SSE alike.

    cursor --> ready --> [gap] --> snapshot --.
                    \\-> history ---------------+--> caught_up --> live --> closing
                                               ^                   |
                                               '--- gap, snapshot <' (a new attempt; what was trimmed meanwhile)

A cursor that cannot be continued (too old, ahead, of another stream) and the load of a page take the same way: a
snapshot on the same connection. Nothing is ever skipped in silence.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runs.frames import write_time
from streaming import protocol
from streaming.hub import CROWDED, DATABASE_ERRORS, DRAIN, GONE, Hub, TooManyStreams
from streaming.protocol import Close, Control, Cursor, GapReason
from streaming.reader import DONE, Ending, Reader
from streaming.reads import Page, Row, UnknownRun, is_attempt
from streaming.ring import Chunk
from streaming.topics import Stream
from streaming.wires import size_of

logger = logging.getLogger(__name__)
PAST_ALL = 2**62  # a page after this is only the row
BUSY = Ending(Close.BUSY, "database_away", 2.0)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a connection asked for.

    Args: stream_id: the run's current stream as the caller has just read it; after: the last event that the client
    has applied, None for the start; wants_snapshot: the load of a page; is_tail: stay open past the end; grants: what
    `ready` says besides (role, generation, grace).
    """

    run_id: UUID
    stream_id: UUID
    after: Cursor | None = None
    wants_snapshot: bool = False
    is_tail: bool = False
    grants: Mapping[str, Any] = field(default_factory=dict)


async def follow(hub: Hub, opening: Opening, reader: Reader) -> AsyncGenerator[Any, None]:
    """Give what the connection is to be sent, encoded by the reader's wire, until the stream or the reader ends.

    The last thing is always a `closing` frame; `reader.ending` holds its code. Back-pressure is the caller's: nothing
    is fetched before the caller has sent what it got.
    """
    following = _Following(hub, opening, reader)
    try:
        while (items := await following.step()) is not None:
            for item in items:
                message = reader.wire.control(item) if isinstance(item, Control) else item
                reader.sending_since = hub.now()
                hub.sending.begin(reader, size_of(message))
                yield message
                hub.sending.end(reader)
                reader.sending_since = None
    except TooManyStreams:
        reader.end(CROWDED)
    except UnknownRun:
        reader.end(GONE)
    except DATABASE_ERRORS as error:
        logger.warning("follow.database_away", extra={"run_id": opening.run_id.hex, "error": repr(error)})
        reader.end(BUSY)
    finally:
        reader.sending_since = None
        hub.sending.end(reader)
        following.leave()
    reader.end(DONE)
    ending = reader.ending or DONE
    yield reader.wire.control(protocol.closing(ending.code, ending.reason, retry_after=ending.retry_after))


def judge(after: Cursor, stream_id: UUID, *, floor: int, head: int) -> GapReason | None:
    """Say why a cursor cannot be continued in a stream; None when it can."""
    if after.stream_id != stream_id:
        return GapReason.OTHER_STREAM
    if after.seq > head:
        return GapReason.AHEAD
    return GapReason.TRIMMED if after.seq < floor - 1 else None


class _Following:
    """The state of one follow(): the stream, and the cursor up to which events were given out."""

    def __init__(self, hub: Hub, opening: Opening, reader: Reader) -> None:
        self.hub, self.opening, self.reader = hub, opening, reader
        self.stream: Stream | None = None
        self.cursor = 0
        self.is_caught_up = False
        self._ahead: tuple[int, asyncio.Task[Page]] | None = None

    def leave(self) -> None:
        """Stop following."""
        if self._ahead is not None:
            self._ahead[1].cancel()
            self._ahead = None
        if self.stream is not None:
            self.hub.leave(self.stream, self.reader)
            self.stream = None

    async def step(self) -> list[Any] | None:
        """Give what is to be sent next, after waiting for it where there is nothing; None at the end."""
        while True:
            reader, stream = self.reader, self.stream
            if self.hub.is_draining:
                reader.end(DRAIN)
            if reader.ending is not None:
                return None
            if stream is None:
                return await self._open(await self._join(self.opening.stream_id))
            if stream.successor is not None:
                return await self._gap(Cursor(stream.id, self.cursor), 1, GapReason.NEW_ATTEMPT)
            if reader.window.is_open:
                if self.cursor < stream.ring.head:
                    return await self._next(stream)
                if not self.is_caught_up:
                    self.is_caught_up = True
                    return [protocol.caught_up(Cursor(stream.id, self.cursor))]
                if stream.ended_at is not None and self.cursor >= stream.ended_at and not self.opening.is_tail:
                    return None
            if reader.wants_beat:
                reader.wants_beat = False
                return [protocol.heartbeat(stream.ring.head)]
            await reader.wait()

    async def _open(self, stream: Stream) -> list[Any]:
        """Judge the cursor and give `ready` with what comes first."""
        after = self.opening.after
        if after is None and self.opening.wants_snapshot:
            parts, row = await self._snapshot()
            return [self._ready(row), *parts]
        is_here = after is None or after.stream_id == stream.id
        self.cursor = (after.seq if after is not None else 0) if is_here else PAST_ALL
        page = await self.hub.page(stream, self.cursor)
        row = page.row
        if row.stream_id != stream.id:  # a new attempt since the caller read the run
            self.leave()
            return await self._open(await self._join(row.stream_id))
        reason = judge(after or Cursor(row.stream_id, 0), row.stream_id, floor=row.floor_seq, head=row.last_seq)
        if reason is GapReason.OTHER_STREAM and after is not None:
            is_earlier = await is_attempt(self.hub.db, row.run_id, after.stream_id)
            reason = GapReason.NEW_ATTEMPT if is_earlier else reason
        if reason is None and not page.follows(self.cursor):
            reason = GapReason.TRIMMED  # the cursor is inside of a compacted text
        if reason is not None:
            return [self._ready(row), *await self._gap(after, row.floor_seq, reason)]
        return [self._ready(row), *self._take(self._look_ahead(stream, page))]

    async def _next(self, stream: Stream) -> list[Any]:
        """Give the next chunk: from the ring, else from the database, else a snapshot."""
        chunk = stream.ring.after(self.cursor)
        if chunk is None:
            page = await self._page(stream)
            if not page.follows(self.cursor):
                return await self._gap(Cursor(stream.id, self.cursor), page.row.floor_seq, GapReason.SLOW)
            if page.chunk is None and stream.successor is None:
                await self.hub.verify(stream)
            chunk = self._look_ahead(stream, page)
        return self._take(chunk)

    async def _page(self, stream: Stream) -> Page:
        """Read what follows the cursor; it may have been asked for already."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == self.cursor:
            return await ahead[1]
        if ahead is not None:
            ahead[1].cancel()
        return await self.hub.page(stream, self.cursor)

    def _look_ahead(self, stream: Stream, page: Page) -> Chunk | None:
        """Give the page's chunk; if more is to come, it is read while this chunk is being sent."""
        if page.chunk is not None and page.last < page.row.last_seq:
            task = asyncio.ensure_future(self.hub.page(stream, page.last))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._ahead = (page.last, task)
        return page.chunk

    def _take(self, chunk: Chunk | None) -> list[Any]:
        if chunk is None:
            return []
        self.cursor = chunk.last
        self.reader.window.sent(chunk.last, len(chunk.body))
        return [chunk.form(self.reader.encode)]

    async def _gap(self, after: Cursor | None, earliest: int, reason: GapReason) -> list[Any]:
        parts, _row = await self._snapshot()
        return [protocol.gap(requested=after, earliest_seq=earliest, reason=reason), *parts]

    async def _snapshot(self) -> tuple[list[Any], Row]:
        """Give the view as it stands, in parts, and go on behind it; follows a new attempt to its stream."""
        (row, parts), stream = await self.hub.snapshot(self.opening.run_id), self.stream
        if stream is None or row.stream_id != stream.id:
            self.leave()
            stream = await self._join(row.stream_id)
        if stream.learn(row):
            stream.poke()
        self.cursor, self.is_caught_up = row.last_seq, False
        self.reader.window.restart(self.cursor)
        return list(parts), row

    async def _join(self, stream_id: UUID) -> Stream:
        self.stream = await self.hub.join_stream(self.opening.run_id, stream_id, self.reader)
        return self.stream

    def _ready(self, row: Row) -> Control:
        return protocol.ready(
            stream_id=row.stream_id,
            head_seq=row.last_seq,
            earliest_seq=row.floor_seq,
            status=row.status,
            server_time=write_time(datetime.now(UTC)),
            **self.opening.grants,
        )
