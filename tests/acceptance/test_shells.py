"""A shell on the whole installation: it outlives every process but its own, and ends when it should, with proof."""

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests.stack import LiveStack, is_alive, wait_until
from tools.processes.terminals.host import socket_of
from tools.processes.terminals.link import NoHost, Output, Terminal

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SECONDS = 60.0
HOST = "warden.py terminals"
STUBBORN = (
    "trap '' TERM INT HUP; (trap '' TERM HUP; exec sleep 31337.42) & setsid sleep 31338.42 & "
    "( ( setsid sh -c 'exec sleep 31339.42' & ) & ); echo b''egun\n"
)


@dataclass
class Seat:
    """A shell, and somebody who types into it at the machine itself."""

    stack: LiveStack
    shell: dict[str, Any]
    folder: str
    generation: int = 1000  # above those of any page

    @property
    def run(self) -> str:
        return str(self.shell["run"])

    def type(self, text: str, *, sees: str) -> str:
        """Type a line and return what came until the text was seen."""
        self.generation += 1
        return asyncio.run(self._type(text, sees))

    async def _type(self, text: str, sees: str) -> str:
        seen = b""
        async with asyncio.timeout(SECONDS):
            async with Terminal.attach(
                self.folder, self.shell["id"], role="pilot", generation=self.generation
            ) as terminal:
                terminal.type(terminal.welcome["taken"], text.encode())
                async for item in terminal:
                    if isinstance(item, Output):
                        seen += item.data
                    if sees.encode() in seen:
                        return seen.decode(errors="replace")
        raise AssertionError(f"it never came: {seen[-500:]!r}")

    def pids(self) -> list[psutil.Process]:
        """Return what runs in the terminal."""
        marked = psutil.process_iter(["environ"])
        return [one for one in marked if (one.info["environ"] or {}).get("OUTLIVE_WARD") == self.shell["id"]]

    def claims(self) -> int:
        """How many claims its run has had."""
        return [event["type"] for event in self.stack.events(self.run)].count("claim.started")

    def is_gone(self) -> bool:
        return not os.path.exists(socket_of(self.folder, self.shell["id"])) and not self.pids()


def a_seat(stack: LiveStack, **body: Any) -> Seat:
    """Open a shell over HTTP and wait for its terminal."""
    host = stack.the(HOST)
    answer = stack.client.post("/shells", json=body)
    assert answer.status_code == 201, answer.text
    seat = Seat(stack, answer.json(), host.cmdline()[-1])
    wait_until(lambda: os.path.exists(socket_of(seat.folder, seat.shell["id"])), seconds=SECONDS, what="the terminal")
    return seat


def test_a_shell_outlives_its_workers_their_parent_a_deploy_and_its_host(stack: LiveStack) -> None:
    seat = a_seat(stack)
    seat.type("X=41; echo $((X+1))x\n", sees="42x")

    def is_adopted(*, after: int) -> None:
        wait_until(lambda: seat.claims() > after, seconds=2 * SECONDS, what=f"claim {after + 1}")
        assert "42y" in seat.type("echo $((X+1))y\n", sees="42y")

    stack.kill("worker_main")
    is_adopted(after=1)
    parent = stack.the("outlive_workers")
    parent.send_signal(signal.SIGTERM)  # a deploy: the workers drain; `make up` starts them again
    is_adopted(after=2)
    host = stack.the(HOST)
    ours = host.children()  # a ward outlives its host, and looks like it
    host.kill()
    wait_until(lambda: [one for one in stack.processes(HOST) if one not in (host, *ours)], seconds=SECONDS,
               what="another host")  # fmt: skip
    assert "42z" in seat.type("echo $((X+1))z; exit 3\n", sees="42z")
    run = stack.wait(seat.run, seconds=SECONDS)
    assert (run["status"], run["result"]) == ("completed", {"exit_code": 3, "signal": None})
    shell = stack.client.get(f"/shells/{seat.shell['id']}").json()
    assert (shell["status"], shell["exit_code"]) == ("completed", 3)
    wait_until(seat.is_gone, what="the end of its processes")


def test_b42_b43_a_stop_is_no_stop_before_all_is_gone(stack: LiveStack) -> None:
    seat = a_seat(stack)
    seat.type(STUBBORN, sees="begun")
    wait_until(lambda: sum(pid.name() == "sleep" for pid in seat.pids()) == 3, what="three sleeps")
    pids = seat.pids()
    answer = stack.client.post(f"/shells/{seat.shell['id']}/terminate")
    assert answer.status_code == 202
    with pytest.raises((AssertionError, NoHost, TimeoutError)):  # nothing is typed into it any more
        seat.type("echo t''yped\n", sees="typed")
    run = stack.wait(seat.run)
    assert not [pid for pid in pids if is_alive(pid.pid)]
    assert (run["status"], run["cancel"]["reason"]) == ("cancelled", "user")
    assert [(e["outcome"], e["proof"]) for e in run["cancel"]["effects"]] == [("stopped", "process tree empty")]


def test_b43_a_stop_is_carried_out_by_the_next_worker(stack: LiveStack) -> None:
    seat = a_seat(stack)
    seat.type(STUBBORN, sees="begun")
    pids = seat.pids()
    stack.kill("worker_main")
    stack.client.post(f"/shells/{seat.shell['id']}/terminate")
    run = stack.wait(seat.run, "cancelled", seconds=SECONDS)
    assert run["cancel"]["reason"] == "user"
    wait_until(seat.is_gone, what="the end of its processes")
    assert not [pid for pid in pids if is_alive(pid.pid)]
