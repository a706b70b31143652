"""What happens to commands when their worker is killed or frozen: real processes, nothing asks the worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tools.builders import a_marker, living, wait_until_now
from tests.tools.processes.worker_program import KEY
from tools.processes.proofs import load_proof

WARDEN = Path(__file__).parents[3] / "tools/processes/warden.py"
TREE = (
    "trap '' TERM HUP; setsid sleep {m} & ( ( setsid sh -c 'exec sleep {m}' & ) & ) ;"
    " while [ $(pgrep -fc '^sleep {m}') -lt 2 ]; do :; done; echo > up; while :; do sleep {m}; done"
)


class Worker:
    """One worker process with one running command. `marker` finds whatever is left of the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marker = a_marker()
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *, lease_seconds: float, script: str = TREE, keeps: bool = False) -> "Worker":
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.tools.processes.worker_program",
                str(self.folder),
                str(lease_seconds),
                script.format(m=self.marker),
                *(["keep"] if keeps else []),
            ]
        )
        wait_until_now(lambda: (self.folder / "leased").exists())
        assert keeps or len(living(self.marker)) >= 2
        return self

    def sees(self, name: str) -> None:
        """Wait until the worker has made this file."""
        wait_until_now(lambda: (self.folder / name).exists())

    def proof(self) -> dict[str, Any]:
        """Wait until the ward has left its proof."""
        found: dict[str, Any] = wait_until_now(lambda: load_proof(str(self.folder), KEY))
        return found

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wardens(self) -> list[psutil.Process]:
        assert self.process is not None
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in found if "warden.py" in " ".join(process.cmdline())]

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for pid in living(self.marker):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.end()


def test_killed_worker_takes_its_trees_along(worker: Worker) -> None:
    wardens = worker.begin(lease_seconds=60).wardens()
    assert len(wardens) == 2
    worker.signal(signal.SIGKILL)
    wait_until_now(lambda: not living(worker.marker))
    proof = wait_until_now(lambda: load_proof(str(worker.folder), KEY))
    assert (proof["gone"], proof["cause"], proof["by_itself"]) == (True, "worker", False)
    _, alive = psutil.wait_procs(wardens, timeout=60)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def test_lease_end_kills_while_the_worker_is_frozen(worker: Worker) -> None:
    """H15: the worker sees nothing and says nothing; the ward counts by its own clock and sends no TERM."""
    worker.begin(lease_seconds=1.5)
    worker.signal(signal.SIGSTOP)
    frozen_at = time.monotonic()
    wait_until_now(lambda: not living(worker.marker))
    assert time.monotonic() - frozen_at < 15  # of the 60 that nobody waits for
    proof = wait_until_now(lambda: load_proof(str(worker.folder), KEY))
    assert (proof["gone"], proof["cause"]) == (True, "lease")
    assert {number for _, _, number in proof["signalled"]} == {int(signal.SIGKILL)}
    worker.signal(signal.SIGCONT)
    assert worker.process is not None
    assert worker.process.wait(60) == 0


BRIEF = "echo > up; exit 3"


def test_a_worker_that_is_killed_with_the_result_in_its_hands_leaves_the_proof(worker: Worker) -> None:
    """It was told how the command ended, and could store nothing of it."""
    worker.begin(lease_seconds=60, script=BRIEF, keeps=True).sees("ended")
    assert load_proof(str(worker.folder), KEY) is None
    worker.signal(signal.SIGKILL)
    proof = worker.proof()
    assert (proof["gone"], proof["exit"], proof["by_itself"]) == (True, 3, True)


def test_a_worker_that_freezes_with_the_result_in_its_hands_leaves_the_proof(worker: Worker) -> None:
    worker.begin(lease_seconds=3, script=BRIEF, keeps=True).sees("ended")
    worker.signal(signal.SIGSTOP)
    assert worker.proof()["exit"] == 3


def test_a_proof_that_was_stored_is_kept_by_nobody(worker: Worker) -> None:
    worker.begin(lease_seconds=60, script=BRIEF, keeps=True).sees("ended")
    assert len(worker.wardens()) == 2
    (worker.folder / "release").touch()
    worker.sees("released")
    assert worker.process is not None
    assert worker.process.wait(60) == 0
    assert load_proof(str(worker.folder), KEY) is None


def test_fork_of_the_worker_that_holds_the_sockets_does_not_keep_the_tree_alive(tmp_path: Path, worker: Worker) -> None:
    """A forked child inherits the control socket, so there is no EOF; the pidfd of the worker tells."""
    program = tmp_path / "forking.py"
    program.write_text(
        "import asyncio, os, pathlib, signal, sys\n"
        "from tests.tools.processes import worker_program\n"
        "async def main():\n"
        "    task = asyncio.create_task(worker_program.main(pathlib.Path(sys.argv[1]), 60, sys.argv[2]))\n"
        "    while not os.path.exists('up'):\n"
        "        await asyncio.sleep(0.01)\n"
        "    if os.fork() == 0:\n"
        "        signal.pause()\n"
        "    open('forked', 'w').close()\n"
        "    await task\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(WARDEN.parents[2]), "PYTHONWARNINGS": "ignore"}
    worker.process = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path), TREE.format(m=worker.marker)], cwd=tmp_path, env=environment
    )
    wait_until_now(lambda: (tmp_path / "forked").exists())
    forks = [one for one in psutil.Process(worker.process.pid).children() if "forking.py" in " ".join(one.cmdline())]
    worker.signal(signal.SIGKILL)
    try:
        wait_until_now(lambda: not living(worker.marker))
    finally:
        for fork in forks:
            fork.kill()
    assert forks


def test_warden_needs_nothing_but_the_standard_library_and_says_how_to_use_it() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", str(WARDEN)], capture_output=True, cwd="/", check=False)
    assert done.returncode == 2
    assert done.stderr == b"usage: warden.py serve FD WORKER_PID | warden.py terminals FOLDER\n"
