"""One child process: how it is started, known to be ready, and stopped."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from config.stack.bell import Bell
from config.stack.errors import StackError
from config.stack.identity import record_of, save_record
from config.stack.logs import PROBLEM, keep_bounded, last_line
from config.stack.runmodes import SELF, RunMode
from config.stack.state import StateFolder

POLL_SECONDS = 0.02
AFTER_KILL_SECONDS = 2.0


@dataclass(frozen=True)
class ChildSpec:
    """What to run. `marker` is a part of its command line that tells it from a foreign process."""

    name: str
    argv: tuple[str, ...]
    marker: str
    environ: Mapping[str, str]
    cwd: Path = Path("/")
    ready: Callable[[], bool] | None = None
    ready_within_seconds: float = 60.0
    before_start: Callable[[], None] | None = None
    stop_signal: int = signal.SIGTERM
    stop_within_seconds: float = 4.0
    last_signal: int = signal.SIGKILL
    death_signal: int = signal.SIGKILL
    mode: RunMode = SELF
    problem: re.Pattern[str] = PROBLEM


class Child:
    """A program that is started again and again under one name. All calls come from the main thread."""

    def __init__(self, spec: ChildSpec, state: StateFolder) -> None:
        self.spec = spec
        self.log = state.log(spec.name)
        self.started_at = 0.0
        self._record = state.record(spec.name)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the program in a session of its own, so that Ctrl-C at the terminal reaches us alone."""
        spec = self.spec
        if spec.before_start:
            spec.before_start()
        keep_bounded(self.log)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                spec.mode.wrap(list(spec.argv), death_signal=spec.death_signal),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=spec.cwd, env=dict(spec.environ), start_new_session=True,
            )  # fmt: skip
        self.started_at = time.monotonic()
        save_record(self._record, record_of(spec.name, self._process.pid, spec.marker, stop_signal=spec.stop_signal))

    def exit_text(self) -> str | None:
        """Say how the program ended, None while it runs."""
        code = self._process.poll() if self._process else None
        if code is None:
            return None
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def await_ready(self, bell: Bell) -> None:
        """Return once the program serves. Raises StackError when it ends or takes too long, StopRequested."""
        spec, ready = self.spec, self.spec.ready
        if ready and not bell.wait_until(lambda: self.exit_text() is not None or ready(), spec.ready_within_seconds):
            raise StackError(f"{spec.name} did not answer within {spec.ready_within_seconds:.0f} s. See {self.log}")
        self.require_running()

    def require_running(self) -> None:
        """Raise StackError with the last line of its log when the program has ended."""
        ended = self.exit_text()
        if ended:
            said = last_line(self.log) or "it said nothing"
            raise StackError(f"{self.spec.name} ended while starting ({ended}): {said}. See {self.log}")

    def signal(self, number: int) -> None:
        """Signal the program. Its id is safe to use: we have not collected its exit yet."""
        if self._process and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def stop(self, bell: Bell) -> bool:
        """Ask, wait, insist. Returns True when it left by itself. A further stop signal ends the patience."""
        asked_before = len(bell.stop_signals)
        self.signal(self.spec.stop_signal)
        gentle = self._await_exit(bell, self.spec.stop_within_seconds, asked_before)
        if not gentle:
            self.signal(self.spec.last_signal)
            if not self._await_exit(bell, AFTER_KILL_SECONDS, None):
                self.signal(signal.SIGKILL)
                self._await_exit(bell, AFTER_KILL_SECONDS, None)
        self._record.unlink(missing_ok=True)
        return gentle

    def _await_exit(self, bell: Bell, seconds: float, asked_before: int | None) -> bool:
        give_up_at = time.monotonic() + seconds
        while self._process and self._process.poll() is None:
            impatient = asked_before is not None and len(bell.stop_signals) > asked_before
            if impatient or time.monotonic() > give_up_at:
                return False
            bell.wait(POLL_SECONDS)
        return True
