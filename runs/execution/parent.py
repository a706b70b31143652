"""The parent of the workers on a host: starts them, waits for them, and says at once when one is gone.

It is the witness of RULES H6: a process whose exit its parent has seen cannot send anything any more.
"""

import logging
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from django.db import Error, close_old_connections

from runs.conf import limits
from runs.errors import Busy
from runs.execution.names import worker_name
from runs.supervisor.lost_workers import worker_gone

logger = logging.getLogger(__name__)

SHORT_LIFE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# After the drain time a worker has this long to stop processes and say goodbye; then it is killed.
GOODBYE_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 1.0


@dataclass
class Seat:
    """The place of one worker; who sits there changes."""

    process: subprocess.Popen[bytes] | None = None
    name: str = ""
    began: float = 0.0
    pause: float = 0.0
    start_at: float = 0.0


@dataclass
class Parent:
    """Keeps `count` workers alive until it is told to stop."""

    count: int
    queue: str = "default"
    stop_by: float | None = None
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> None:
        """Start the workers and look after them until SIGTERM or SIGINT; then they drain. A second signal hurries."""
        seats = [Seat() for _ in range(self.count)]
        wake_read, wake_write = socket.socketpair()
        wake_write.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._stop(seats))
        while self.stop_by is None or any(seat.process for seat in seats) or self.reports:
            for seat in seats:
                self._look_after(seat)
            self._report()
            if select.select([wake_read], [], [], LONGEST_WAIT_SECONDS if not self.reports else 0.2)[0]:
                wake_read.recv(4096)
        logger.info("workers.stopped")

    def _look_after(self, seat: Seat) -> None:
        now = time.monotonic()
        if seat.process is not None:
            code = seat.process.poll()
            if code is None:
                if self.stop_by is not None and now >= self.stop_by:
                    seat.process.kill()
                return
            self._note_end(seat, code, now)
        if self.stop_by is None and now >= seat.start_at:
            self._start(seat, now)

    def _start(self, seat: Seat, now: float) -> None:
        suffix = secrets.token_hex(3)
        command = [sys.executable, "-m", "runs.execution.worker_main", "--queue", self.queue]
        command += ["--suffix", suffix, "--parent", str(os.getpid())]
        seat.process = subprocess.Popen(command)
        seat.name = worker_name(suffix, pid=seat.process.pid)
        seat.began = now
        logger.info("worker.started", extra={"worker": seat.name})

    def _note_end(self, seat: Seat, code: int, now: float) -> None:
        assert seat.process is not None
        proof = {"pid": seat.process.pid, "seen_by": socket.gethostname()}
        self.reports[seat.name] = proof | ({"signal": -code} if code < 0 else {"exit": code})
        is_short = now - seat.began < SHORT_LIFE_SECONDS and code != 0
        seat.pause = min(LONGEST_PAUSE_SECONDS, seat.pause * 2 or FIRST_PAUSE_SECONDS) if is_short else 0.0
        seat.process, seat.start_at = None, now + seat.pause

    def _report(self) -> None:
        """Say who is gone; what the database could not take is said again."""
        for name, proof in list(self.reports.items()):
            try:
                close_old_connections()
                worker_gone(name, proof)
            except (Error, Busy) as error:
                logger.warning("worker.end_not_reported", extra={"worker": name, "error": repr(error)[:200]})
                return
            del self.reports[name]

    def _stop(self, seats: list[Seat]) -> None:
        if self.stop_by is None:
            self.stop_by = time.monotonic() + limits().drain_seconds + GOODBYE_SECONDS
        for seat in seats:
            if seat.process is not None:
                seat.process.terminate()
