"""The hub: what all open streams of one server process share.

One Redis connection, one ring of encoded events a followed stream, one database read for all followers at the same
place, one query a second for all followed runs, one bound on the memory of all of it (streaming/budget.py). Doorbells
are for speed only: they may be lost, repeated or late, and with Redis down the tick alone goes on delivering
(docs/PROTOCOL.md, "Certainty").
"""

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from runs.conf import limits
from runs.database import Database
from runs.decisions.core import Effect
from runs.ringing import ring_now
from streaming.budget import RingBudget, Sending
from streaming.protocol import HEARTBEAT_SECONDS, Close, Control, Cursor
from streaming.protocol import snapshot as write_snapshot
from streaming.reader import SLOW, Ending, Reader
from streaming.reads import Page, Row, read_heads, read_page, read_snapshot, read_versions
from streaming.redis_link import Messages
from streaming.subscriptions import Subscriptions
from streaming.topics import BadBell, Feed, Stream, feed_channel, stream_channel

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
FEED_TICKS = 3  # a feed whose doorbells are lost is this many ticks behind
POOL_SIZE = 6
SNAPSHOTS_AT_ONCE = 2  # each holds a whole log while it is folded
BEAT_TURNS = 150  # thousands of heartbeats at once would hold up everybody else
CROWDED_RETRY_SECONDS = 20.0
DATABASE_ERRORS = (psycopg.Error, PoolTimeout, OSError)
DRAIN = Ending(Close.DRAIN, "server_restart", 0.5)
GONE = Ending(Close.UNKNOWN_RUN, "unknown_run")
CROWDED = Ending(Close.CROWDED, "too_many_streams", CROWDED_RETRY_SECONDS)


class TooManyStreams(Exception):
    """This person has as many streams open in this process as one may have."""


class Hub:
    """All followed streams of this process and event loop."""

    def __init__(self, db: Database, redis_url: str) -> None:
        self.db = db
        self.readers: set[Reader] = set()
        self.sending: Sending[Reader] = Sending()
        self.rings = RingBudget()
        self.is_draining = False
        self.subscriptions = Subscriptions(redis_url, self._heard, self._look_everywhere)
        self.counts = {"pages": 0, "snapshots": 0, "feeds": 0, "looks": 0, "finds": 0}
        self._topics: dict[bytes, Stream | Feed] = {}
        self._reads: dict[Any, asyncio.Task[Any]] = {}
        self._opened: Counter[int] = Counter()  # streams by person
        self._snapshots = asyncio.Semaphore(SNAPSHOTS_AT_ONCE)
        self._due: set[UUID] = set()
        self._look = asyncio.Event()
        self._ticks = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, redis_url: str, *, dsn: str | None = None) -> AsyncIterator["Hub"]:
        """Run a hub for the length of a block."""
        async with Database.open(ring=_ring, max_size=POOL_SIZE, dsn=dsn) as db:
            hub = cls(db, redis_url)
            async with asyncio.TaskGroup() as group:
                keeping = (hub.subscriptions.keep(), hub._keep(), hub._beat())
                tasks = [group.create_task(each) for each in keeping]
                try:
                    yield hub
                finally:
                    for task in tasks:
                        task.cancel()

    async def join_stream(self, run_id: UUID, stream_id: UUID, reader: Reader) -> Stream:
        """Follow a stream. Subscribed when this returns, unless Redis is away: then the tick has to do.

        Raises: TooManyStreams.
        """
        stream = self._topics.get(stream_channel(stream_id))
        if not isinstance(stream, Stream):
            stream = Stream(run_id, stream_id, self.rings)
        await self._join(stream, reader)
        return stream

    async def join_feed(self, tenant_id: UUID, reader: Reader) -> Feed:
        """Follow a tenant's feed: what changes after this has returned is told.

        Raises: TooManyStreams, psycopg.Error.
        """
        feed = self._topics.get(feed_channel(tenant_id))
        if not isinstance(feed, Feed):
            feed = Feed(tenant_id)
        await self._join(feed, reader)
        if not feed.has_start:
            try:
                versions = await self._shared(tenant_id, "feeds", read_versions(self.db, [tenant_id]))
            except BaseException:
                self.leave(feed, reader)
                raise
            feed.learn(versions.get(tenant_id, {}))
        return feed

    async def _join(self, topic: Stream | Feed, reader: Reader) -> None:
        if reader.user_id is not None:
            if self._opened[reader.user_id] >= limits().streams_per_person:
                raise TooManyStreams
            self._opened[reader.user_id] += 1
        self._topics[topic.channel] = topic
        topic.readers.add(reader)
        self.readers.add(reader)
        try:
            await self.subscriptions.add(topic.channel)
        except BaseException:
            self.leave(topic, reader)
            raise

    def leave(self, topic: Stream | Feed, reader: Reader) -> None:
        """Follow it no more."""
        if reader in topic.readers and reader.user_id is not None:
            self._opened[reader.user_id] -= 1
            if not self._opened[reader.user_id]:
                del self._opened[reader.user_id]
        topic.readers.discard(reader)
        self.readers.discard(reader)
        if isinstance(topic, Feed):
            topic.forget(reader)
        if not topic.readers and self._topics.get(topic.channel) is topic:
            del self._topics[topic.channel]
            topic.close()
            self.subscriptions.remove(topic.channel)

    async def page(self, stream: Stream, after: int) -> Page:
        """Read what follows a cursor; a hundred followers at one cursor are one query.

        Raises: UnknownRun, psycopg.Error.
        """
        read = read_page(self.db, stream.run_id, stream.id, after, max_bytes=self.sending.page_bytes)
        page: Page = await self._shared((stream.id, after), "pages", read)
        if stream.learn(page.row):
            stream.poke()
        return page

    async def snapshot(self, run_id: UUID) -> tuple[Row, list[Control]]:
        """Fold the current stream of a run and write it; followers who ask at the same time share what was written.

        Raises: UnknownRun, psycopg.Error.
        """
        found: tuple[Row, list[Control]] = await self._shared(run_id, "snapshots", self._fold(run_id))
        return found

    async def _fold(self, run_id: UUID) -> tuple[Row, list[Control]]:
        async with self._snapshots:
            found = await read_snapshot(self.db, run_id)
            cursor = Cursor(found.row.stream_id, found.row.last_seq)
            return found.row, await asyncio.to_thread(write_snapshot, found.view, cursor)

    async def verify(self, stream: Stream) -> None:
        """Ask the database for the head, when a doorbell has named events that no page holds."""
        claimed = stream.ring.head
        row = (await read_heads(self.db, [stream.run_id])).get(stream.run_id)
        if row is not None and row.stream_id == stream.id and stream.ring.head == claimed > row.last_seq:
            logger.warning("bell.false", extra={"stream_id": stream.id.hex, "claimed": claimed})
            stream.ring.reset(row.last_seq)

    async def _shared(self, key: Any, count: str, read: Coroutine[Any, Any, Any]) -> Any:
        task = self._reads.get(key)
        if task is None:
            self.counts[count] += 1
            task = self._reads[key] = asyncio.ensure_future(read)
            task.add_done_callback(lambda done: self._forget(key, done))
        else:
            read.close()
        return await asyncio.shield(task)

    def _forget(self, key: Any, task: asyncio.Task[Any]) -> None:
        del self._reads[key]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; with nobody left it is no news

    @staticmethod
    def now() -> float:
        """Give the clock by which readers are checked."""
        return asyncio.get_running_loop().time()

    def drain(self) -> None:
        """Send every reader away, to come back to another server; readers that come now are sent away as well."""
        self.end_all(DRAIN)
        self.is_draining = True

    def end_all(self, ending: Ending) -> None:
        """Close all connections."""
        for reader in tuple(self.readers):
            reader.end(ending)

    def _heard(self, messages: Messages) -> None:
        """Take what came over Redis in one read; several doorbells of a stream wake its followers once."""
        woken: dict[Stream | Feed, None] = {}
        for channel, payload in messages:
            topic = self._topics.get(channel)
            if topic is None:
                continue
            try:
                if topic.hear(payload):
                    woken[topic] = None
            except BadBell:
                logger.warning("bell.unreadable", extra={"channel": channel.decode("ascii", "replace")})
        for topic in woken:
            topic.poke()
            if isinstance(topic, Stream) and topic.is_due:
                topic.is_due = False
                self._due.add(topic.run_id)
                self._look.set()

    def _look_everywhere(self) -> None:
        self._due.update(topic.run_id for topic in self._topics.values() if isinstance(topic, Stream))
        self._look.set()

    async def _keep(self) -> None:
        """Read the rows of followed runs: all each second, some at once when there is reason to."""
        loop = asyncio.get_running_loop()
        next_tick = loop.time() + TICK_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_tick):
                    await self._look.wait()
            if loop.time() >= next_tick:
                next_tick = loop.time() + TICK_SECONDS
                self._tick(loop.time())
            self._look.clear()
            try:
                await self._read_due()
                if self._ticks % FEED_TICKS == 0:
                    await self._read_feeds()
            except DATABASE_ERRORS as error:
                logger.warning("hub.database_away", extra={"error": repr(error)})

    def _tick(self, now: float) -> None:
        self._ticks += 1
        self._look_everywhere()
        for reader in tuple(self.readers):
            reader.check(now)
        for reader in self.sending.too_many():
            reader.send_away(SLOW)

    async def _beat(self) -> None:
        """Send every reader a heartbeat once in HEARTBEAT_SECONDS, a few at a time."""
        for turn in itertools.cycle(range(BEAT_TURNS)):
            await asyncio.sleep(HEARTBEAT_SECONDS / BEAT_TURNS)
            for reader in [r for r in self.readers if r.number % BEAT_TURNS == turn]:
                reader.beat()

    async def _read_due(self) -> None:
        due, self._due = self._due, set()
        if not due:
            return
        self.counts["looks"] += 1
        rows = await read_heads(self.db, list(due))
        for topic in tuple(self._topics.values()):
            if not isinstance(topic, Stream) or topic.run_id not in due:
                continue
            row = rows.get(topic.run_id)
            if row is None:
                for reader in tuple(topic.readers):
                    reader.end(GONE)
                continue
            topic.notice(row.version)
            if topic.learn(row):
                self.counts["finds"] += 1
                topic.poke()

    async def _read_feeds(self) -> None:
        feeds = {topic.tenant_id: topic for topic in self._topics.values() if isinstance(topic, Feed)}
        if feeds:
            versions = await read_versions(self.db, list(feeds))
            for tenant_id, feed in feeds.items():
                if feed.learn(versions.get(tenant_id, {})):
                    feed.poke()


def _ring(effects: Sequence[Effect]) -> None:
    """Ring in a thread, after an agent's shell has changed hands; other attaching and detaching rings nobody."""
    if effects:
        asyncio.get_running_loop().run_in_executor(None, ring_now, effects)
