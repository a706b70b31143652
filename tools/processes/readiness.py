"""Waits until a file descriptor can be written, for code that reads and writes pipes and sockets itself."""

import asyncio


def wake(waiter: asyncio.Future[None]) -> None:
    """Set the result unless somebody did: readiness may be told more than once."""
    if not waiter.done():
        waiter.set_result(None)


async def wait_writable(fd: int) -> None:
    """Return when `fd` can take a write."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, wake, waiter)
    try:
        await waiter
    finally:
        loop.remove_writer(fd)
