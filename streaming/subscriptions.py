"""Which Redis channels this process listens to, kept through every reconnect."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from streaming.redis_link import Messages, RedisLink, read_url

logger = logging.getLogger(__name__)

CONFIRM_SECONDS = 0.25  # longer, and the tick is as good
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 2.0
PING_SECONDS = 5.0


class Subscriptions:
    """A set of channels on one connection that is made again whenever it is lost.

    Args: on_messages: as RedisLink; on_back: the connection was made again, so messages were lost meanwhile.
    """

    def __init__(self, url: str, on_messages: Callable[[Messages], None], on_back: Callable[[], None]) -> None:
        self._address = read_url(url)
        self._on_messages, self._on_back = on_messages, on_back
        self._link: RedisLink | None = None
        self._lost = asyncio.Event()
        self._confirmed: dict[bytes, asyncio.Future[None]] = {}

    @property
    def is_connected(self) -> bool:
        """Redis is there right now."""
        return self._link is not None

    async def add(self, channel: bytes) -> None:
        """Listen to a channel. Returns when Redis has confirmed it, after 0.25 s, or at once while it is away."""
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            confirmed = self._confirmed[channel] = asyncio.get_running_loop().create_future()
            if self._link is not None:
                self._link.subscribe([channel])
        if self._link is not None and not confirmed.done():
            await asyncio.wait([confirmed], timeout=CONFIRM_SECONDS)

    def remove(self, channel: bytes) -> None:
        """Listen to it no more."""
        if self._confirmed.pop(channel, None) is not None and self._link is not None:
            self._link.unsubscribe(channel)

    async def keep(self) -> None:
        """Hold the connection until cancelled."""
        delay = FIRST_RETRY_SECONDS
        was_lost = False
        try:
            while True:
                self._lost.clear()
                try:
                    async with asyncio.timeout(LAST_RETRY_SECONDS):
                        link = await RedisLink.connect(
                            self._address, self._on_messages, self._subscribed, self._lost.set
                        )
                except OSError as error:
                    if not was_lost:
                        logger.warning("redis.away", extra={"error": repr(error)})
                    was_lost = True
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, LAST_RETRY_SECONDS)
                    continue
                self._link = link
                link.subscribe(list(self._confirmed))
                if was_lost:
                    logger.info("redis.back")
                    self._on_back()
                started = asyncio.get_running_loop().time()
                await self._watch(link)
                self._link = None
                was_lost = True
                if asyncio.get_running_loop().time() - started > LAST_RETRY_SECONDS:
                    delay = FIRST_RETRY_SECONDS
                await asyncio.sleep(delay)
        finally:
            if self._link is not None:
                self._link.close()

    async def _watch(self, link: RedisLink) -> None:
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    await self._lost.wait()
                    return
            link.ping()

    def _subscribed(self, channel: bytes) -> None:
        confirmed = self._confirmed.get(channel)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(None)
