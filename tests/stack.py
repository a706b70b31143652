"""The whole installation as real processes, for tests: what `make up` starts, in a state folder of its own.

Only its outside is used: HTTP, sockets, the command line, signals. Its model is the local one; the scripted probe
agent writes its progress into `tokens` (see runs/agents/builtin/probe.py).
"""

import contextlib
import json
import os
import pwd
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.second_try import of_this_try

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 240.0
LOGS, LOG_LINES, LOG_CHARACTERS = ("web", "workers", "supervisor"), 6, 400


def wait_until[T](ask: Callable[[], T], *, seconds: float = 60.0, what: str | Callable[[], str] = "it") -> T:
    """Ask until the answer is true, then return it.

    Raises: AssertionError naming what never came, and what the last answer was. what: a text, or what makes it at the
    end, where it tells how things are then.
    """
    end = time.monotonic() + seconds
    while True:
        if answer := ask():
            return answer
        if time.monotonic() > end:
            name = what if isinstance(what, str) else what()
            raise AssertionError(f"{name} did not happen within {seconds:.0f} s; the last answer: {answer!r:.300}")
        time.sleep(0.02)


@dataclass
class Probe:
    """What the scripted model and its child process really did, told out of band."""

    path: Path

    def read(self) -> tuple[float, float, int, int]:
        """Return (started, last delta at, deltas, process id of the child)."""
        try:
            started, last, count, child = struct.unpack("dddd", self.path.read_bytes()[:32])
        except (OSError, struct.error):
            return 0.0, 0.0, 0, 0
        return started, last, int(count), int(child)

    @property
    def deltas(self) -> int:
        """How many deltas the model has written."""
        return self.read()[2]

    @property
    def child(self) -> int:
        """The process id of the tool's child, 0 before it runs."""
        return self.read()[3]

    def release(self) -> None:
        """Let a model that is held go on."""
        self.path.with_name(self.path.name + ".release").touch()


@dataclass
class LiveStack:
    """A running installation."""

    base_url: str
    token: str
    user: str
    password: str
    state: Path
    tokens: Path
    target_url: str
    process: subprocess.Popen[str]
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(
            base_url=f"{self.base_url}/api/v1", headers={"Authorization": f"Bearer {self.token}"}, timeout=60.0
        )

    def start(self, agent: str, input: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Start a run over HTTP and return the run object. A `key` of its input names its probe."""
        if "key" in input:
            input = input | {"key": of_this_try(input["key"])}
        answer = self.client.post("/runs", json={"agent": agent, "input": input, **more})
        assert answer.status_code == 201, answer.text
        run: dict[str, Any] = answer.json()
        return run

    def run(self, run_id: str) -> dict[str, Any]:
        """Return the run object now."""
        answer = self.client.get(f"/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        return run

    def stop(self, run_id: str) -> httpx.Response:
        """Ask the run to stop."""
        return self.client.post(f"/runs/{run_id}/cancel", json={})

    def wait(self, run_id: str, *statuses: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until the run has one of these statuses, and return it."""
        wanted = statuses or ("completed", "failed", "cancelled", "needs_reconciliation")

        run: dict[str, Any] = {}

        def look() -> bool:
            run.clear()
            run.update(self.run(run_id))
            return run["status"] in wanted

        def what() -> str:
            told = [f"{event['type']} {event['data']}"[:120] for event in self.events(run_id)[-12:]]
            return f"{run_id} {'/'.join(wanted)}, which is {run} after {told}:"

        wait_until(look, seconds=seconds, what=what)
        return run

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Return every stored event of the run."""
        events: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            params = {"limit": "500"} | ({"after": cursor} if cursor else {})
            page = self.client.get(f"/runs/{run_id}/events", params=params, headers={"Accept": "application/json"})
            if page.status_code == 204 or not page.json()["data"]:
                return events
            events += page.json()["data"]
            cursor = f"{events[-1]['stream_id']}:{events[-1]['seq']}"

    def probe(self, key: str) -> Probe:
        """Return the probe of a scripted run."""
        return Probe(self.tokens / of_this_try(key))

    def cli(self, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run the `outlive` command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "runs.cli", *arguments],
            cwd=ROOT, env=self.environ(), text=True, capture_output=True, timeout=seconds, check=False,
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        """Return the environment of a command line that talks to this installation."""
        return os.environ | {"OUTLIVE_BASE_URL": self.base_url, "OUTLIVE_TOKEN": self.token}

    def processes(self, marker: str) -> list[psutil.Process]:
        """Return the processes of this installation whose command line holds the marker.

        Not those that such a one has forked: until it becomes another program, a child looks like its parent.
        """
        found: dict[int, tuple[psutil.Process, int]] = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if marker in " ".join(child.cmdline()):
                    found[child.pid] = child, child.ppid()
        return [child for child, parent in found.values() if parent not in found]

    def the(self, marker: str) -> psutil.Process:
        """Return the one process that the marker names, which is waited for: what dies is started again."""
        found: list[psutil.Process] = []

        def is_one() -> bool:
            found[:] = self.processes(marker)
            return len(found) == 1

        wait_until(is_one, seconds=60, what=lambda: f"one process {marker} in place of {found}")
        return found[0]

    def kill(self, marker: str) -> None:
        """SIGKILL the one process that the marker names, and see it gone."""
        process = self.the(marker)
        process.kill()
        wait_until(lambda: not is_alive(process.pid), what=f"death of {marker}")

    def switch(self, **switches: Any) -> None:
        """Tell the demo target how to behave; without arguments it is well again."""
        well: dict[str, Any] = {
            "delay_seconds": 0, "drop_after_commit": False, "never_answer": False, "fail_after_effect": False,
            "refuse": False, "lookup_fails": False, "key_prefix": None, "times": None,
        }  # fmt: skip
        httpx.put(f"{self.target_url}/switches", json=well | switches, timeout=60).raise_for_status()

    def last_lines(self) -> Iterator[tuple[str, str]]:
        """Yield, for each program of ours, the name of its log and what it said last: for the report of a failure."""
        for name in LOGS:
            with contextlib.suppress(OSError):
                lines = (self.state / "logs" / f"{name}.log").read_text(errors="replace").splitlines()[-LOG_LINES:]
                yield name, "\n".join(line[:LOG_CHARACTERS] for line in lines)

    def effects(self, run_id: str) -> dict[str, int]:
        """Return how often each operation of a run took effect at the demo target, by key."""
        prefix = run_id.removeprefix("run_")
        answer = httpx.get(f"{self.target_url}/effects", timeout=60).json()
        rows = answer["effects"] if isinstance(answer, dict) else answer
        counts: dict[str, int] = {}
        for row in rows:
            if prefix in row["key"]:
                counts[row["key"]] = counts.get(row["key"], 0) + 1
        return counts


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """Return a port of the loopback interface that is free right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def live_stack(folder: Path, **environ: str) -> Iterator[LiveStack]:
    """Start an installation in `folder` and stop it at the end of the block."""
    tokens = folder / "tokens"
    tokens.mkdir(parents=True)
    clean = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL", "OUTLIVE_SECRET_KEY", "CI"}}
    state, port = folder / "state", free_port()
    ourselves = pwd.getpwuid(os.geteuid()).pw_name
    own = {"OUTLIVE_STATE": str(state), "BENCH_TOK": str(tokens)}
    own["OUTLIVE_COMMAND_USER"] = ourselves  # the commands of tests write to folders of ours
    log = (folder / "up.log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "config.stack", "up", "--port", str(port)],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True, start_new_session=True,
        env=clean | own | environ,
    )  # fmt: skip
    try:
        wait_until(lambda: "is ready" in (folder / "up.log").read_text() or process.poll() is not None,
                   seconds=START_SECONDS, what="make up")  # fmt: skip
        assert process.poll() is None, (folder / "up.log").read_text()
        demo = json.loads((state / "demo.json").read_text())
        running = LiveStack(
            base_url=f"http://127.0.0.1:{port}", token=demo["token"], user=demo["user"], password=demo["password"],
            state=state, tokens=tokens, target_url=demo["target_url"], process=process,
        )  # fmt: skip
        with running.client:
            yield running
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(45)
        if process.poll() is None:
            process.kill()
            process.wait()
        log.close()
