"""One place to wait in: for a child's end, a signal that asks us to stop, or the time. No threads.

No threads is a condition, not a taste: Linux sends the parent-death signal when the *thread* that forked
ends.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType

from config.stack.errors import StopRequested

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_SECONDS = 0.02


class Bell:
    """Rings at each signal. Make one per process, in the main thread; `close` puts the old handlers back."""

    def __init__(self) -> None:
        self.stop_signals: list[int] = []
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._old_handlers = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda _number, _frame: None)}
        for number in STOP_SIGNALS:
            # `nohup make up` means it: a hang-up that our parent ignores is ignored here too.
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._old_handlers[number] = signal.signal(number, self._note_stop)

    def _note_stop(self, number: int, _frame: FrameType | None) -> None:
        self.stop_signals.append(number)

    @property
    def is_stop_requested(self) -> bool:
        return bool(self.stop_signals)

    def check(self) -> None:
        """Raise StopRequested once a stop signal has come."""
        if self.stop_signals:
            raise StopRequested

    def wait(self, seconds: float) -> None:
        """Return at the next signal, or when the time is over."""
        ready, _, _ = select.select([self._read_end], [], [], max(0.0, seconds))
        if ready:
            os.read(self._read_end, 4096)

    def wait_until(self, is_so: Callable[[], bool], within_seconds: float) -> bool:
        """Poll until it is so. False when the time is over first. Raises StopRequested at a stop signal."""
        give_up_at = time.monotonic() + within_seconds
        while True:
            self.check()
            if is_so():
                return True
            left = give_up_at - time.monotonic()
            if left <= 0:
                return False
            self.wait(min(POLL_SECONDS, left))

    def close(self) -> None:
        signal.set_wakeup_fd(self._old_wakeup)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)
