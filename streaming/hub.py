"""The hub: what all open streams of one server process share.

One Redis connection, one ring of encoded events a followed stream, one database read for all followers at the same
place, one query a second for all followed runs. Doorbells are for speed only: they may be lost, repeated or late, and
with Redis down the tick alone goes on delivering (docs/PROTOCOL.md, "Certainty").
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from runs.database import Database
from runs.decisions.core import Effect
from streaming.protocol import HEARTBEAT_SECONDS, Close
from streaming.reader import Ending, Reader
from streaming.reads import Page, Snapshot, read_heads, read_page, read_snapshot, read_versions
from streaming.redis_link import Messages
from streaming.subscriptions import Subscriptions
from streaming.topics import BadBell, Feed, Stream, feed_channel, stream_channel

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
FEED_TICKS = 3  # a feed whose doorbells are lost is this many ticks behind
POOL_SIZE = 6
DATABASE_ERRORS = (psycopg.Error, PoolTimeout, OSError)
DRAIN = Ending(Close.DRAIN, "server_restart", 0.5)
GONE = Ending(Close.UNKNOWN_RUN, "unknown_run")


class Hub:
    """All followed streams of this process and event loop."""

    def __init__(self, db: Database, redis_url: str) -> None:
        self.db = db
        self.readers: set[Reader] = set()
        self.is_draining = False
        self.subscriptions = Subscriptions(redis_url, self._heard, self._look_everywhere)
        self.counts = {"pages": 0, "snapshots": 0, "feeds": 0, "looks": 0, "finds": 0}
        self._topics: dict[bytes, Stream | Feed] = {}
        self._reads: dict[Any, asyncio.Task[Any]] = {}
        self._due: set[UUID] = set()
        self._look = asyncio.Event()
        self._ticks = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, redis_url: str, *, dsn: str | None = None) -> AsyncIterator["Hub"]:
        """Run a hub for the length of a block."""
        async with Database.open(ring=_ring_nobody, max_size=POOL_SIZE, dsn=dsn) as db:
            hub = cls(db, redis_url)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(hub.subscriptions.keep()), group.create_task(hub._keep())]
                try:
                    yield hub
                finally:
                    for task in tasks:
                        task.cancel()

    async def join_stream(self, run_id: UUID, stream_id: UUID, reader: Reader) -> Stream:
        """Follow a stream. Subscribed when this returns, unless Redis is away: then the tick has to do."""
        stream = self._topics.get(stream_channel(stream_id))
        if not isinstance(stream, Stream):
            stream = Stream(run_id, stream_id)
        await self._join(stream, reader)
        return stream

    async def join_feed(self, tenant_id: UUID, reader: Reader) -> Feed:
        """Follow a tenant's feed: what changes after this has returned is told. Raises: psycopg.Error."""
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
        topic.readers.discard(reader)
        self.readers.discard(reader)
        if isinstance(topic, Feed):
            topic.forget(reader)
        if not topic.readers and self._topics.get(topic.channel) is topic:
            del self._topics[topic.channel]
            self.subscriptions.remove(topic.channel)

    async def page(self, stream: Stream, after: int) -> Page:
        """Read what follows a cursor; a hundred followers at one cursor are one query.

        Raises: UnknownRun, psycopg.Error.
        """
        read = read_page(self.db, stream.run_id, stream.id, after)
        page: Page = await self._shared((stream.id, after), "pages", read)
        if stream.learn(page.row):
            stream.poke()
        return page

    async def snapshot(self, run_id: UUID) -> Snapshot:
        """Fold the current stream of a run; followers who ask at the same time share it.

        Raises: UnknownRun, psycopg.Error.
        """
        snapshot: Snapshot = await self._shared(run_id, "snapshots", read_snapshot(self.db, run_id))
        return snapshot

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
        wants_beat = self._ticks % round(HEARTBEAT_SECONDS / TICK_SECONDS) == 0
        for reader in tuple(self.readers):
            reader.check(now)
            if wants_beat:
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
            elif topic.learn(row):
                self.counts["finds"] += 1
                topic.poke()

    async def _read_feeds(self) -> None:
        feeds = {topic.tenant_id: topic for topic in self._topics.values() if isinstance(topic, Feed)}
        if feeds:
            versions = await read_versions(self.db, list(feeds))
            for tenant_id, feed in feeds.items():
                if feed.learn(versions.get(tenant_id, {})):
                    feed.poke()


def _ring_nobody(effects: Sequence[Effect]) -> None:
    """Attaching and detaching a control connection rings nobody."""
    assert not effects  # a decision with bells belongs into runs.services, which rings them
