"""A process tree below its ward: what ends it, and the proof that nothing of it is left. stdlib only.

The proof is `waitpid(-1)` saying ECHILD in a subreaper: whatever a descendant does (setsid, double fork), its topmost
living ancestor is our child. Looking through /proc only finds whom to signal.

    running --stop, end of the command--> TERM, grace --> KILL each 2 ms --> gone
    running --lease end, death of who asked--> KILL each 2 ms --> gone
"""

import contextlib
import os
import signal
import time
from typing import Any

from . import kernel

_KILL_ROUND_SECONDS = 0.002
# A process that does not die within this many rounds hangs in the kernel; no need to turn at full speed then.
_FAST_ROUNDS, _SLOW_ROUND_SECONDS = 500, 0.05
_MOST_NAMES = 100  # of signalled processes in the evidence


class Tree:
    """All descendants of this process, one of which is the command.

    grace: for what it leaves behind, in seconds; signals: what it is asked with before that has passed.
    """

    def __init__(self, *, grace: float, signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGCONT)) -> None:
        self.grace = grace
        self._signals = signals
        self.main: int | None = None
        self.exit: int | None = None
        self.by_itself = False
        self.cause: str | None = None  # what stopped it first: "stop", "ended", "lease", "worker"
        self._stopping_since: float | None = None
        self._kill_at: float | None = None
        self._rounds = 0
        self._reaped = 0
        self._signalled: dict[int, list[object]] = {}

    def timeout_ms(self) -> float | None:
        """Say how long to wait until `tick` has something to do; None for ever."""
        return None if self._kill_at is None else max(0.0, (self._kill_at - time.monotonic()) * 1e3)

    def tick(self) -> None:
        """Kill, if it is time to."""
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_round()

    def stop(self, grace: float, cause: str) -> None:
        """Begin or hasten the end; a later, longer grace changes nothing."""
        now = time.monotonic()
        if self._stopping_since is None:
            self._stopping_since, self.cause = now, cause
            if grace > 0:
                for pid, parent in kernel.descendants_of(os.getpid()):
                    self._signal(pid, parent, *self._signals)
        self._kill_at = now + grace if self._kill_at is None else min(self._kill_at, now + grace)

    def reap(self) -> bool:
        """Reap what has ended. Returns True when nothing is left below us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self._reaped += 1
            if pid == self.main:
                self.exit = os.waitstatus_to_exitcode(status)
                self.by_itself = self._stopping_since is None
                # What it left behind is no longer supervised by anyone's wish: it gets the same grace.
                if self.by_itself:
                    self.stop(self.grace, "ended")

    def proof(self) -> dict[str, Any]:
        """Give what is known once `reap` has said True."""
        since = self._stopping_since
        return {
            "gone": True,
            "exit": self.exit,
            "by_itself": self.by_itself,
            "cause": self.cause,
            "reaped": self._reaped,
            "signalled": [[pid, *what] for pid, what in self._signalled.items()],
            "ms": 0.0 if since is None else round((time.monotonic() - since) * 1e3, 2),
        }

    def _signal(self, pid: int, parent: int, *numbers: signal.Signals) -> None:
        name = kernel.signal_descendant(pid, parent, *numbers)
        if name is not None and (pid in self._signalled or len(self._signalled) < _MOST_NAMES):
            self._signalled[pid] = [name, int(numbers[0])]

    def _kill_round(self) -> None:
        """KILL all that can be found. Repeated until ECHILD: a fork storm makes new ones while we look."""
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
        for pid, parent in kernel.descendants_of(os.getpid()):
            with contextlib.suppress(OSError):
                # One atomic sweep over a group, where the process leads one; our own group is only us.
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
            self._signal(pid, parent, signal.SIGKILL)
        self._rounds += 1
        pause = _KILL_ROUND_SECONDS if self._rounds < _FAST_ROUNDS else _SLOW_ROUND_SECONDS
        self._kill_at = time.monotonic() + pause
