"""PostgreSQL's time, as this process last heard it: what a worker writes into events goes by it.

A log has events that the database stamps (decisions) and events that a worker stamps (pieces of text). By two clocks a
reply would be older than its question; measured with a worker ten minutes ahead. Nothing is decided by this time.
"""

import time
from datetime import UTC, datetime

from tools.scope import boottime

ASK = "select extract(epoch from clock_timestamp())::float8 as now"
ASK_EVERY_SECONDS = 10.0
DRIFT = 1e-3  # seconds a second by which an older reading counts as worse: far more than clocks drift


class DatabaseClock:
    """Counts on from a reading by CLOCK_BOOTTIME. Before the first one it is this machine's own clock."""

    def __init__(self) -> None:
        self._ahead: float | None = None  # of CLOCK_BOOTTIME
        self._width, self.read_at = 0.0, float("-inf")

    def learn(self, said: float, *, asked_at: float) -> None:
        """Take what PostgreSQL said (seconds since 1970) to a question that was sent at `asked_at` (CLOCK_BOOTTIME).

        It said so somewhere between the question and now. A slow answer tells less than a fast one of before.
        """
        now = boottime()
        width = now - asked_at
        if self._ahead is None or width <= self._width + (now - self.read_at) * DRIFT:
            self._ahead, self._width = said - (asked_at + now) / 2, width
            self.read_at = now

    def time(self) -> float:
        """Give the seconds since 1970."""
        return time.time() if self._ahead is None else boottime() + self._ahead

    def now(self) -> datetime:
        """Give the time."""
        return datetime.fromtimestamp(self.time(), UTC)


clock = DatabaseClock()
