"""The server under test: web, workers and supervisor as real processes on a free port, and a token to use it."""

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from config.stack.ports import free_ports
from config.stack.runmodes import SELF
from config.stack.state import CHECKOUT

READY_SECONDS = 120.0
STOP_SECONDS = 15.0
WARDEN = CHECKOUT / "tools" / "processes" / "warden.py"
PROGRAMS = {
    "workers": ("manage.py", "outlive_workers", "--count", "1"),
    "supervisor": ("manage.py", "outlive_supervisor"),
}


@dataclass(frozen=True)
class Site:
    """Where everything is. probes: the folder of probe files, $BENCH_TOK of the workers."""

    base: str
    token: str
    probes: Path
    web_pid: int
    workers_pid: int
    supervisor_pid: int
    folder: Path

    def worker_pids(self) -> list[int]:
        """Find the worker processes (the children of their parent)."""
        return children_of(self.workers_pid)

    @contextlib.contextmanager
    def another_worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """Have a second worker with a parent of its own for the length of a block; gives that parent."""
        environ = site_environ(self.folder, self.base)
        with running_program("spare", PROGRAMS["workers"], self.folder, environ) as process:
            await_text("worker.ready", process, self.folder / "spare.log")
            yield process

    @contextlib.contextmanager
    def workers_stopped(self) -> Iterator[None]:
        """Keep every worker from running for the length of a block: what is created stays queued."""
        pids = self.worker_pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def children_of(pid: int) -> list[int]:
    """Find the processes that a process has started and not collected."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def prepare() -> str:
    """Make tables, a tenant, a member and their token, in a process of its own: the client needs no Django."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.prepare"], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split()[-1]


@contextlib.contextmanager
def running_site(token: str, **changes: str) -> Iterator[Site]:
    """Start the processes on the database and Redis that the environment names; they end with the block, or with us.

    Args: changes: variables of their environment that differ from ours.
    Raises: RuntimeError with the log of a process that does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="outlive-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        probes = folder / "probes"
        probes.mkdir()
        port = free_ports(1)[0]
        base = f"http://127.0.0.1:{port}"
        environ = site_environ(folder, base) | changes
        web = ("-m", "streaming.server", "--port", str(port))
        terminals = (str(WARDEN), "terminals", environ["OUTLIVE_TERMINALS"])
        stack.enter_context(running_program("terminals", terminals, folder, environ))
        started = {
            what: stack.enter_context(running_program(what, argv, folder, environ))
            for what, argv in (PROGRAMS | {"web": web}).items()
        }
        await_answer(f"{base}/readyz", started["web"], folder / "web.log")
        pids = [started[what].pid for what in ("web", "workers", "supervisor")]
        site = Site(base, token, probes, *pids, folder)
        await_text("worker.ready", started["workers"], folder / "workers.log")
        yield site


def site_environ(folder: Path, base: str) -> dict[str, str]:
    """Give what the programs get: the scripted model and the addresses of this run, on top of ours."""
    return dict(os.environ) | {
        "DJANGO_SETTINGS_MODULE": "tests.bench.settings",
        "OUTLIVE_BASE_URL": base,
        "OUTLIVE_MODEL": "scripted",
        "OUTLIVE_STREAMS_PER_PERSON": "10000",  # all readers are one person
        "OUTLIVE_WORKSPACES": str(folder / "workspaces"),
        "OUTLIVE_TERMINALS": str(folder / "t"),
        "BENCH_TOK": str(folder / "probes"),
        "OUTLIVE_COMMAND_USER": pwd.getpwuid(os.geteuid()).pw_name,  # its commands write to the line above
        "PYTHONUNBUFFERED": "1",
    }


@contextlib.contextmanager
def running_program(
    name: str, argv: tuple[str, ...], folder: Path, environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program of this checkout for the length of a block. It dies with us, however we die."""
    command = SELF.wrap([sys.executable, *argv], death_signal=signal.SIGKILL)
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_answer(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a web server answers without an error."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    _await(answers, process, log)


def await_text(text: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once a program has written `text`."""
    _await(lambda: text in log.read_text(errors="replace"), process, log)


def _await(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + READY_SECONDS
    while not is_ready():
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError(f"{log.stem} did not come up:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)
