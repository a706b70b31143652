"""Stop a claim at a named place of its life (runs/failpoints.py): let it die there, or hold it there for a while."""

import asyncio
import threading
from collections.abc import Callable

POLL_SECONDS = 0.005
REACH_SECONDS = 10.0


class Crash:
    """The next claim that passes the seam dies there, with its whole worker. `happened` once it did."""

    def __init__(self, name: str, die: Callable[[], None]) -> None:
        self.name = name
        self._die = die
        self._reached = threading.Event()

    @property
    def happened(self) -> bool:
        return self._reached.is_set()

    async def hook(self) -> None:
        """Die at the first pass; every later one is let through."""
        if not self._reached.is_set():
            self._reached.set()
            self._die()


class Hold:
    """Claims that pass the seam wait there until `release`; everything else goes on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reached = threading.Event()
        self._released = threading.Event()

    def wait_reached(self, seconds: float = REACH_SECONDS) -> None:
        """Return once a claim waits at the seam. Raises: AssertionError after `seconds`."""
        assert self._reached.wait(seconds), f"No claim came to {self.name} within {seconds} s."

    def release(self) -> None:
        """Let what waits here go on."""
        self._released.set()

    async def hook(self) -> None:
        """Wait for the release."""
        self._reached.set()
        while not self._released.is_set():  # noqa: ASYNC110 - it is set by the test's thread
            await asyncio.sleep(POLL_SECONDS)
