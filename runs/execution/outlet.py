"""One claim's way to the event writer: a bounded queue whose contents are stored in order, or never.

What is not stored yet is bounded (256 frames, 1 MiB). A producer that finds the outlet full awaits `room`; so a
database that slows down slows the model stream down, and no reader can.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from uuid import UUID

from runs.conf import limits
from runs.decisions.append import Batch
from runs.frames import Draft


class OutletClosed(Exception):
    """The claim was lost or given back: what was not stored by then never will be."""


class Outlet:
    """Made by `EventWriter.outlet`. Not for two claims: the batch numbers are this fence's."""

    def __init__(
        self,
        *,
        run_id: UUID,
        stream_id: UUID,
        fence: int,
        wake: Callable[["Outlet"], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.run_id = run_id
        self.stream_id = stream_id
        self.fence = fence
        self.is_closed = False
        self._wake = wake
        self._on_lost = on_lost
        self._waiting: deque[Draft] = deque()
        self._in_flight: Batch | None = None
        self._last_batch = 0
        self._pushed = self._stored = self._unstored_bytes = 0
        self._space = asyncio.Event()
        self._space.set()
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def is_full(self) -> bool:
        """True when a producer should await `room` before it makes more."""
        return not self._space.is_set()

    @property
    def may_send(self) -> bool:
        """True when something waits for a batch and none is in flight."""
        return bool(self._waiting) and self._in_flight is None

    def push(self, draft: Draft) -> None:
        """Take an event without waiting. After a close it is dropped: nobody may write it any more."""
        if self.is_closed:
            return
        self._waiting.append(draft)
        self._pushed += 1
        self._unstored_bytes += len(draft.text)
        self._note_space()
        self._wake(self)

    async def room(self) -> None:
        """Wait until a producer may go on. Raises: OutletClosed."""
        await self._space.wait()
        if self.is_closed:
            raise OutletClosed

    async def flush(self) -> None:
        """Wait until everything that was pushed before this call is stored. Raises: OutletClosed."""
        if self._stored >= self._pushed:
            return
        if self.is_closed:
            raise OutletClosed
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._pushed, done))
        await done

    def close(self) -> None:
        """Drop what is not stored and let nothing more in."""
        self.is_closed = True
        self._waiting.clear()
        self._space.set()
        for _, done in self._flushes:
            if not done.done():
                done.set_exception(OutletClosed())
        self._flushes.clear()

    # For the writer alone.

    def take(self, most: int) -> Batch:
        """Make the next batch, at most that many events. One is in flight at a time (RULES H10)."""
        assert self._in_flight is None
        drafts = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._last_batch += 1
        self._in_flight = Batch(self.run_id, self.fence, self._last_batch, drafts)
        return self._in_flight

    def stored(self) -> None:
        """Note that the batch in flight is committed."""
        assert self._in_flight is not None
        self._stored += len(self._in_flight.drafts)
        self._unstored_bytes -= sum(len(d.text) for d in self._in_flight.drafts)
        self._in_flight = None
        if self._waiting:
            self._wake(self)
        self._note_space()
        while self._flushes and self._flushes[0][0] <= self._stored:
            _, done = self._flushes.pop(0)
            if not done.done():
                done.set_result(None)

    def lost(self) -> None:
        """Close, and tell the run that its fence is not its own any more."""
        if not self.is_closed:
            self.close()
            self._on_lost()

    def _note_space(self) -> None:
        unstored = self._pushed - self._stored
        if unstored >= limits().unstored_frames or self._unstored_bytes >= limits().unstored_bytes:
            self._space.clear()
        else:
            self._space.set()
