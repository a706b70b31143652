"""What dead workers leave behind on this host: their parent is where orphans return to, and ends them (Linux).

A worker's processes live under wards, which end their trees when the worker dies. This is for the case that somebody
kills the wards as well: whatever they had under them falls to us, gets a moment to go by itself, and is killed.
"""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Collection

from tools.processes import kernel

logger = logging.getLogger(__name__)

# A ward whose worker has died kills its tree at once; what is still there after this has no ward.
MOMENT_SECONDS = 2.0


class Strays:
    """The processes that fell to this one. `own`: those that it has started itself and waits for elsewhere."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self._is_possible = sys.platform == "linux"
        if self._is_possible:
            kernel.become_subreaper()

    def look_after(self, own: Collection[int]) -> bool:
        """Reap what has ended, kill what had its moment. Returns True while some are left."""
        if not self._is_possible:
            return False
        now = time.monotonic()
        strays = [pid for pid in kernel.children_of(os.getpid()) if pid not in own]
        self._since = {pid: self._since.get(pid, now) for pid in strays}
        for pid, since in self._since.items():
            if now - since >= MOMENT_SECONDS:
                self._kill(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return bool(strays)

    def _kill(self, pid: int) -> None:
        below = list(kernel.descendants_of(pid))
        name = kernel.signal_descendant(pid, os.getpid(), signal.SIGKILL)
        for descendant, parent in below:
            kernel.signal_descendant(descendant, parent, signal.SIGKILL)
        if name is not None:
            logger.warning("worker.stray_killed", extra={"pid": pid, "program": name, "below": len(below)})
