"""What really happened, seen from outside: the scripted model's probe file, and the deaths of processes."""

import asyncio
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

POLL_SECONDS = 0.002


class ProbeFile:
    """$BENCH_TOK/<key>, written by the scripted model and by the agent `probe` (runs/agents/builtin/probe.py)."""

    def __init__(self, folder: Path, key: str) -> None:
        self._path = folder / key
        self._release = folder / f"{key}.release"

    def _read(self) -> tuple[float, float, float, float]:
        try:
            return struct.unpack("4d", self._path.read_bytes())
        except (OSError, struct.error):  # not there yet, or not whole
            return 0.0, 0.0, 0.0, 0.0

    @property
    def last_delta_at(self) -> float:
        """time.time() of the model's last delta."""
        return self._read()[1]

    @property
    def deltas(self) -> int:
        """How many deltas the model has made."""
        return int(self._read()[2])

    @property
    def child(self) -> int:
        """The process id of the tool's command; 0 before it runs."""
        return int(self._read()[3])

    def release(self) -> None:
        """Let a model that holds go on."""
        self._release.touch()


async def until(is_true: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until it is true. Raises: TimeoutError naming what was waited for."""
    give_up_at = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {seconds} s in vain for {what}")
        await asyncio.sleep(POLL_SECONDS)


class Deaths:
    """The deaths of some processes, by pidfd: readable at the moment from which their parent's waitpid returns."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds = {os.pidfd_open(pid) for pid in pids}
        assert self._fds  # a command runs, so its processes must be found
        self.last_at = 0.0
        self.all_gone: asyncio.Future[None] = self._loop.create_future()
        for fd in self._fds:
            self._loop.add_reader(fd, self._died, fd)

    def _died(self, fd: int) -> None:
        self.last_at = time.time()
        self._loop.remove_reader(fd)
        os.close(fd)
        self._fds.discard(fd)
        if not self._fds:
            self.all_gone.set_result(None)


def tree_of(run_id: str) -> list[int]:
    """Find the processes of a run's command: each has the ward's mark in its environment, whatever it did since."""
    mark = f"OUTLIVE_WARD={run_id}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # gone meanwhile, or not ours
    return found


def kill_to_wait_seconds(times: int) -> list[float]:
    """Measure what this machine needs from a kill to waitpid: the floor of every stop."""
    taken = []
    for _ in range(times):
        child = subprocess.Popen(["sleep", "100"])
        time.sleep(0.003)
        began = time.perf_counter()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        taken.append(time.perf_counter() - began)
    return taken


def memory_bytes(pid: int) -> int:
    """Read the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
