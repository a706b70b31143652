"""The hub of this process, started with the first reader (or by our server before it) and stopped by the server."""

import asyncio
import logging

from django.conf import settings

from streaming.guard import guard
from streaming.hub import Hub
from streaming.protocol import Close
from streaming.reader import Ending

logger = logging.getLogger(__name__)
BROKEN = Ending(Close.BUSY, "hub_restart", 1.0)


class _Held:
    """A running hub: its task, and the hub once it is there."""

    def __init__(self) -> None:
        self.hub: asyncio.Future[Hub] = asyncio.get_running_loop().create_future()
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            async with Hub.running(settings.REDIS_URL) as hub, asyncio.TaskGroup() as group:
                watching = group.create_task(guard(hub))
                self.hub.set_result(hub)
                await self.stop.wait()
                hub.drain()
                watching.cancel()
        except BaseException as error:
            if not self.hub.done():
                self.hub.set_exception(error)
            else:
                self.hub.result().end_all(BROKEN)
            if isinstance(error, asyncio.CancelledError):
                raise
            logger.exception("hub.broken")
        finally:
            _held.pop(asyncio.get_running_loop(), None)


_held: dict[asyncio.AbstractEventLoop, _Held] = {}


async def current_hub() -> Hub:
    """Give the hub of this event loop, starting it if there is none.

    Raises: what kept it from starting; the next call tries again.
    """
    loop = asyncio.get_running_loop()
    held = _held.get(loop)
    if held is None:
        held = _held[loop] = _Held()
    return await asyncio.shield(held.hub)


def running_hub() -> Hub | None:
    """Give the hub of this event loop if it is running."""
    held = _held.get(asyncio.get_running_loop())
    return held.hub.result() if held is not None and held.hub.done() and not held.hub.exception() else None


async def stop_hub() -> None:
    """End the hub of this event loop; its readers are sent away as in a drain."""
    held = _held.get(asyncio.get_running_loop())
    if held is not None:
        held.stop.set()
        await asyncio.wait([held.task])
