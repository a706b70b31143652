"""One open connection as the hub sees it: how it is woken, how much it may still be sent, and why it ends."""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streaming.protocol import Close
from streaming.ring import Encoder
from streaming.wires import Wire

logger = logging.getLogger(__name__)

WINDOW_BYTES = 1 << 20  # sent and not acknowledged; counts only for clients that acknowledge at all
WINDOW_EVENTS = 10_000
STUCK_SECONDS = 10.0  # one send that the transport does not take for so long ends the connection


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a connection is closed by the server."""

    code: int
    reason: str
    retry_after: float | None = None


DONE = Ending(Close.DONE, "ended")
SLOW = Ending(Close.SLOW, "slow", 0.0)
_numbers = itertools.count()


class Window:
    """Flow control by acknowledgement: what was sent and not yet applied by the client."""

    __slots__ = ("_acked", "_bytes", "_is_used", "_sent", "_unacked")

    def __init__(self) -> None:
        self._is_used = False
        self._unacked: deque[tuple[int, int]] = deque()
        self._bytes = self._acked = self._sent = 0

    def sent(self, last_seq: int, size_bytes: int) -> None:
        """Count a message that was sent."""
        self._sent = last_seq
        if self._is_used:
            self._unacked.append((last_seq, size_bytes))
            self._bytes += size_bytes

    def ack(self, seq: int) -> None:
        """Take an acknowledgement; from the first one on the window counts."""
        self._is_used, self._acked = True, seq
        while self._unacked and self._unacked[0][0] <= seq:
            self._bytes -= self._unacked.popleft()[1]

    def restart(self, seq: int) -> None:
        """Forget what was sent: a snapshot puts the client at this seq."""
        self._unacked.clear()
        self._bytes, self._sent, self._acked = 0, seq, seq

    @property
    def is_open(self) -> bool:
        """More may be sent."""
        if not self._is_used:
            return True
        return self._bytes < WINDOW_BYTES and self._sent - self._acked < WINDOW_EVENTS


class Reader:
    """A connection that follows a stream.

    `who` is checked again while it is open (streaming/guard.py); `evict` cuts it from outside, when a send does not
    come back.
    """

    def __init__(self, wire: Wire, *, who: Any = None) -> None:
        self.wire, self.who = wire, who
        self.evict: Callable[[], object] | None = None
        self.is_evicted = False  # it takes nothing any more, not even why it is closed
        self.encode: Encoder = wire.events
        self.number = next(_numbers)
        self.window = Window()
        self.ending: Ending | None = None
        self.sending_since: float | None = None
        self.wants_beat = False
        self._is_poked = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def user_id(self) -> int | None:
        """Whose stream it is, where somebody signed in for it."""
        return None if self.who is None else int(self.who.user_id)

    def poke(self) -> None:
        """Make it look again: something may have changed."""
        self._is_poked = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until it was poked since the last wait."""
        if not self._is_poked:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._is_poked = False

    def beat(self) -> None:
        """Ask it to send a heartbeat."""
        self.wants_beat = True
        self.poke()

    def end(self, ending: Ending) -> None:
        """Close the connection at its next turn; the first reason stays."""
        if self.ending is None:
            self.ending = ending
            self.poke()

    def check(self, now: float) -> None:
        """Send the reader away if its transport has not taken a message for too long."""
        if self.sending_since is not None and now - self.sending_since > STUCK_SECONDS:
            self.send_away(SLOW)

    def send_away(self, ending: Ending) -> None:
        """End the connection although a send of it does not come back."""
        if self.evict is not None:
            logger.info("reader.sent_away", extra={"reason": ending.reason, "user_id": self.user_id})
            self.ending = ending
            self.is_evicted = True
            evict, self.evict = self.evict, None
            evict()
