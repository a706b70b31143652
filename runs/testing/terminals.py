"""The host of terminals of one test: the program that `make up` starts, begun when the first agent opens a shell."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.processes import wards

START_SECONDS, END_SECONDS = 20.0, 20.0
POLL_SECONDS = 0.01


class TerminalsHost:
    """`folder` is where it listens, once it is started. Its end is the end of every terminal, with a proof."""

    def __init__(self) -> None:
        # The path of a socket must be short, and that of a test's own folder is not.
        self.folder = Path(tempfile.mkdtemp(prefix="outlive-t-"))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it run. Raises: RuntimeError when it does not begin."""
        if self._process is not None:
            return
        command = [sys.executable, "-I", "-S", str(wards.WARDEN), "terminals", str(self.folder)]
        self._process = subprocess.Popen(command, env={"PATH": os.defpath})
        end = time.monotonic() + START_SECONDS
        while not (self.folder / "host.sock").exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("The host of terminals did not begin.")
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End it and everything that runs in its terminals."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)
