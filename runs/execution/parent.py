"""The parent of the workers on a host: starts them, waits for them, and says at once when one is gone.

It is the witness of RULES H6: a process whose exit its parent has seen cannot send anything any more. And it is where
the orphans of its workers return to.
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
from uuid import UUID

from django.db import Error, close_old_connections

from runs.conf import limits
from runs.errors import Busy
from runs.execution.alone import find_lonely
from runs.execution.names import worker_name
from runs.execution.strays import Strays
from runs.supervisor.lost_workers import worker_gone

logger = logging.getLogger(__name__)

SHORT_LIFE_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# After the drain time a worker has this long to stop processes and say goodbye; then it is killed.
GOODBYE_SECONDS = 10.0
MOST_LONELY = 4  # processes for one run each, beside the shared ones
LONGEST_WAIT_SECONDS = 1.0


@dataclass
class Seat:
    """The place of one worker; who sits there changes. run: it carries this one alone, and is not replaced."""

    run: UUID | None = None
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
    lonely: list[Seat] = field(default_factory=list)
    look_again_at: float = 0.0

    def run(self) -> None:
        """Start the workers and look after them until SIGTERM or SIGINT; then they drain. A second signal hurries."""
        shared = [Seat() for _ in range(self.count)]
        strays, has_strays = Strays(), False
        wake_read, wake_write = socket.socketpair()
        wake_write.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._stop([*shared, *self.lonely]))
        while (
            self.stop_by is None
            or any(seat.process for seat in [*shared, *self.lonely])
            or self.reports
            or has_strays  # nobody would end them after us
        ):
            for seat in [*shared, *self.lonely]:
                self._look_after(seat)
            self._report()
            self._look_for_lonely()
            own = {seat.process.pid for seat in [*shared, *self.lonely] if seat.process is not None}
            has_strays = strays.look_after(own)
            if select.select([wake_read], [], [], 0.2 if self.reports or has_strays else LONGEST_WAIT_SECONDS)[0]:
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
        if self.stop_by is None and seat.run is None and now >= seat.start_at:
            self._start(seat, now)

    def _look_for_lonely(self) -> None:
        """Give each run that must run alone a process of its own, whose end is reported as any other's."""
        now = time.monotonic()
        if self.stop_by is not None or now < self.look_again_at:
            return
        self.look_again_at = now + LONGEST_WAIT_SECONDS
        # One that has just ended keeps its seat for its pause: a process that cannot even start must not spin.
        self.lonely = [seat for seat in self.lonely if seat.process is not None or now < seat.start_at]
        room = MOST_LONELY - len(self.lonely)
        if room <= 0:
            return
        try:
            close_old_connections()
            found = find_lonely(MOST_LONELY)
        except Error as error:
            logger.warning("workers.database_away", extra={"error": repr(error)[:200]})
            return
        seated = {seat.run for seat in self.lonely}
        for run in [run for run in found if run not in seated][:room]:
            seat = Seat(run=run)
            self.lonely.append(seat)
            self._start(seat, now)

    def _start(self, seat: Seat, now: float) -> None:
        suffix = secrets.token_hex(3)
        command = [sys.executable, "-m", "runs.execution.worker_main", "--queue", self.queue]
        command += ["--suffix", suffix, "--parent", str(os.getpid())]
        if seat.run is not None:
            command += ["--run", seat.run.hex]
        seat.process = subprocess.Popen(command)
        seat.name = worker_name(suffix, pid=seat.process.pid)
        seat.began = now
        logger.info("worker.started", extra={"worker": seat.name})

    def _note_end(self, seat: Seat, code: int, now: float) -> None:
        assert seat.process is not None
        proof: dict[str, Any] = {"pid": seat.process.pid, "seen_by": socket.gethostname()}
        self.reports[seat.name] = proof | ({"signal": -code} if code < 0 else {"exit": code})
        is_short = now - seat.began < SHORT_LIFE_SECONDS and code != 0
        seat.pause = min(LONGEST_PAUSE_SECONDS, seat.pause * 2 or FIRST_PAUSE_SECONDS) if is_short else 0.0
        seat.process, seat.start_at = None, now + seat.pause

    def _report(self) -> None:
        """Say who is gone; what the database could not take is said again."""
        for name, proof in list(self.reports.items()):
            try:
                close_old_connections()
                # What we end ourselves because of a deploy speaks against nobody's step.
                worker_gone(name, proof, is_death=self.stop_by is None)
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
