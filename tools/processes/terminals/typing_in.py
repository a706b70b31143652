"""What people type: numbered, taken once, written as far as the terminal takes it. stdlib only."""

import os
from collections import deque

LATEST = float(1 << 40)  # of CLOCK_BOOTTIME: beyond it timers know no moment


class Input:
    """The input of one terminal. `accepted` counts all bytes that were taken on, `written` those that went in.

    Bytes come with the moment (CLOCK_BOOTTIME) at which whoever allowed them stands for it no longer. What has not
    gone in by then never does, nor what waits with it: its sender asks again, and sends it again.
    """

    def __init__(self, master: int) -> None:
        self._master = master
        self._waiting = bytearray()
        self._void: deque[tuple[int, float]] = deque()  # up to which offset, and when
        self.accepted = 0
        self.is_shut = False

    @property
    def written(self) -> int:
        """How many bytes the terminal has taken."""
        return self.accepted - len(self._waiting)

    @property
    def waits(self) -> int:
        """How many bytes are still to go in."""
        return len(self._waiting)

    def take(self, offset: int, data: bytes, void_at: float) -> bool:
        """Take bytes that begin at an offset; what came before is taken no second time. False: something is missing."""
        if self.is_shut:
            return True
        known = self.accepted - offset
        if known < 0:
            return False
        if len(data) > known:
            self._waiting += data[known:]
            self.accepted += len(data) - known
            self._void.append((self.accepted, void_at))
        return True

    def forget_void(self, now: float) -> bool:
        """Forget what may not go in any more. False: there is nothing of that kind."""
        while self._void and self._void[0][0] <= self.written:
            self._void.popleft()
        if not any(void_at <= now for _, void_at in self._void):
            return False
        self.forget_waiting()
        return True

    def forget_waiting(self) -> None:
        """Forget what has not gone in."""
        self.accepted = self.written
        self._waiting.clear()
        self._void.clear()

    def shut(self) -> None:
        """Pass nothing on any more, also of what has come already."""
        self.is_shut = True
        self.forget_waiting()

    def write(self) -> bool:
        """Write what the terminal takes now. Returns True if it took something."""
        if not self._waiting:
            return False
        try:
            sent = os.write(self._master, self._waiting[:65536])
        except BlockingIOError:
            return False
        except OSError:  # nobody has the terminal open any more
            self.shut()
            return False
        del self._waiting[:sent]
        return sent > 0
