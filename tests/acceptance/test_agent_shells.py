"""An agent's shell on the whole installation: its worker is killed under a command, and a Stop ends both."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.test_shells import HOST, SECONDS, Seat
from tests.stack import LiveStack, is_alive, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def go() -> Iterator[Path]:
    """Give a file that is not there yet, where the user of shells finds it."""
    path = Path(tempfile.gettempdir()) / f"go-{uuid4().hex}"
    yield path
    path.unlink(missing_ok=True)


def seat_of(stack: LiveStack, run: str) -> Seat:
    """Return the terminal of the shell that a run has opened."""
    found: list[str] = []

    def born() -> bool:
        found[:] = [e["data"]["shell_id"] for e in stack.events(run) if e["type"] == "child.started"]
        return bool(found)

    wait_until(born, seconds=SECONDS, what="the shell")
    return Seat(stack, stack.client.get(f"/shells/{found[0]}").json(), stack.the(HOST).cmdline()[-1])


def test_a_command_outlives_its_worker_and_runs_once(stack: LiveStack, go: Path) -> None:
    begun = go.with_name(f"{go.name}-begun")
    waits = f"echo o''nce >> lines; touch {begun}; until [ -e {go} ]; do sleep 0.1; done; rm -f {begun}; seq 100000"
    run = stack.start("probe", {"key": uuid4().hex, "n": 0, "shell": ["X=41", waits, "echo $((X+1)); cat lines"]})["id"]
    seat = seat_of(stack, run)
    wait_until(begun.exists, seconds=SECONDS, what="the command")
    stack.kill("worker_main")
    wait_until(
        lambda: [e["type"] for e in stack.events(run)].count("claim.started") == 2, seconds=SECONDS, what="a claim"
    )
    go.touch()
    ended = stack.wait(run, seconds=2 * SECONDS)
    assert ended["status"] == "completed", ended
    outputs = [output for output, _ in ended["result"]["shell"]]
    assert outputs[1].startswith("1\n2\n3\n")
    assert outputs[1].endswith("99999\n100000\n")
    assert outputs[2] == "42\nonce\n"
    wait_until(seat.is_gone, what="the end of its processes")


def test_a_stop_ends_both_and_leaves_nothing(stack: LiveStack, go: Path) -> None:
    stubborn = f"trap '' TERM HUP; touch {go}; setsid sleep 31341 & sleep 31342"
    run = stack.start("probe", {"key": uuid4().hex, "n": 0, "shell": [stubborn]})["id"]
    seat = seat_of(stack, run)
    wait_until(lambda: os.path.exists(go), seconds=SECONDS, what="the command")
    pids = seat.pids()
    assert stack.client.post(f"/runs/{run}/cancel").status_code == 202
    ended = stack.wait(run, seconds=SECONDS)
    assert (ended["status"], ended["cancel"]["reason"]) == ("cancelled", "user")
    assert "process tree empty" in {effect["proof"] for effect in ended["cancel"]["effects"]}
    assert stack.run(seat.run)["status"] == "cancelled"
    assert not [pid for pid in pids if is_alive(pid.pid)]
