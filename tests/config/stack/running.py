"""One `up` of small programs, run as a person would run it, and the wait for what it does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from config.stack.state import CHECKOUT

WAIT_SECONDS = 40.0
SMALL_STACK = Path(__file__).with_name("small_stack.py")


def wait_until(is_so: Callable[[], object], what: str) -> None:
    """Poll until it is so; fail the test with `what` after the limit."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < give_up_at, f"still waiting: {what}"
        time.sleep(0.02)


class Running:
    """One `up` of small programs, with what it printed so far."""

    def __init__(self, state: Path, port: int, *words: str) -> None:
        self.state = state
        self.port = port
        self._output = state.with_name(f"{state.name}.{time.monotonic_ns()}.txt")
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "OUTLIVE_STATE": str(state)}
        with self._output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(SMALL_STACK), str(port), *words], env=environ, stdout=out, stderr=out
            )

    @property
    def text(self) -> str:
        return self._output.read_text()

    def await_text(self, text: str) -> None:
        wait_until(lambda: text in self.text or self.process.poll() is not None, f"{text!r} in {self.text}")
        assert text in self.text, self.text

    def await_ready(self) -> None:
        self.await_text("Outlive is ready")

    def pid_of(self, name: str) -> int:
        """Return the id that the program wrote down, once it did."""
        path = self.state / f"{name}.pid"
        wait_until(lambda: path.exists() and path.read_text(), str(path))
        return int(path.read_text())

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)
