"""Shells on another machine, which is a real sshd here: opened, sized, ended, and their end proven."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.tools.builders import ENV, a_marker, living, wait_until, wait_until_now
from tests.tools.processes.terminals.conftest import Seat, Terminals
from tests.tools.processes.terminals.sshd import Sshd, a_key, sshd  # noqa: F401 - a fixture
from tools.processes.terminals import ssh

PROGRAM = str(Path(ssh.__file__))


class Remote:
    """Shells on the sshd, under wards of the host of terminals."""

    def __init__(self, terminals: Terminals, server: Sshd) -> None:
        self.terminals, self.server = terminals, server
        self.verdict = server.folder / "verdict.json"
        self.mark = f"shell_{uuid.uuid4().hex}"
        self.adopt_seconds = 60.0
        self.home = Path("/nonexistent")

    async def start(self, command: str = "PS1=; exec bash --norc --noprofile -i", **changes: Any) -> None:
        place = {
            "host": "127.0.0.1", "port": self.server.port, "username": self.server.username,
            "host_key": self.server.host_key, "key_file": str(self.server.key_file), "agent_path": "",
            "command": command, "mark": self.mark, "term_seconds": 0.5, "verdict": str(self.verdict),
        }  # fmt: skip
        spec = self.server.folder / "spec.json"
        spec.write_text(json.dumps(place | changes))
        env = {"PATH": ENV["PATH"], "TERM": "xterm-256color", "HOME": str(self.home)}
        await self.terminals.start(
            sys.executable, "-I", PROGRAM, str(spec), env=env, adopt_seconds=self.adopt_seconds, grace_seconds=20.0
        )

    @contextlib.asynccontextmanager
    async def seats(self) -> AsyncIterator[tuple[Seat, Seat]]:
        """An owner and a pilot."""
        async with self.terminals.seat("owner", fence=1) as owner, self.terminals.seat("pilot", generation=1) as pilot:
            yield owner, pilot

    async def judged(self) -> dict[str, Any]:
        await wait_until(self.verdict.exists, seconds=30)
        found: dict[str, Any] = json.loads(self.verdict.read_text())
        return found


async def test_bytes_sizes_and_the_exit_code_go_through(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    remote = Remote(terminals, sshd)
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type("echo he''llo $SSH_CONNECTION; stty size\r")
        await pilot.sees("hello 127.0.0.1")
        await pilot.sees("24 80")
        pilot.terminal.resize(41, 133)
        pilot.type("until [ \"$(stty size)\" = '41 133' ]; do sleep 0.05; done; echo si''zed; sleep 0.1; exit 7\r")
        await pilot.sees("sized")
        told = await owner.news_of("exit")
        assert (told["exit"], told["by_itself"]) == (7, True)
    assert await remote.judged() == {"gone": True, "error": "", "code": ""}


async def test_ctrl_c_reaches_the_program_there_and_a_signal_is_passed_on(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    remote = Remote(terminals, sshd)
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type("echo be''gun; sleep 1000; echo in''terrupted\r")
        await pilot.sees("begun")
        pressing = asyncio.create_task(press_until_heard(pilot, "echo ba''ck; kill -9 $$\r"))
        await pilot.sees("back")
        pressing.cancel()
        assert b"interrupted" not in pilot.output
        assert (await owner.news_of("exit"))["exit"] == -signal.SIGKILL


async def press_until_heard(pilot: Seat, then: str) -> None:
    """Press Ctrl-C, and type a line, again and again: one that comes while bash begins a program is lost."""
    while True:
        pilot.type(b"\x03")
        pilot.type(then)
        await asyncio.sleep(1.0)


async def test_another_host_key_is_refused_and_nothing_is_sent(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    remote = Remote(terminals, sshd)
    await remote.start(host_key=a_key(sshd.folder / "other"))
    async with terminals.seat("owner", fence=1) as owner:
        assert (await owner.news_of("exit"))["exit"] == 255
        await owner.sees("did not show the host key")
    judged = await remote.judged()
    assert (judged["gone"], judged["code"]) == (True, "ssh_host_key")
    assert b"Accepted" not in (sshd.folder / "log").read_bytes()


async def test_a_key_that_is_not_let_in_is_said(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    a_key(sshd.folder / "stranger")
    remote = Remote(terminals, sshd)
    await remote.start(key_file=str(sshd.folder / "stranger"))
    async with terminals.seat("owner", fence=1) as owner:
        await owner.sees("does not accept the key")
        assert (await owner.news_of("exit"))["exit"] == 255
    assert (await remote.judged())["code"] == "ssh_key_refused"


@pytest.fixture
def agent(sshd: Sshd) -> Iterator[str]:  # noqa: F811
    """A real agent that has the key; its socket."""
    path = str(sshd.folder / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until_now(lambda: os.path.exists(path))
            add = ["ssh-add", "-q", str(sshd.key_file)]
            subprocess.run(add, env=os.environ | {"SSH_AUTH_SOCK": path}, check=True)
            yield path
        finally:
            process.terminate()


async def test_an_agent_opens_it_where_the_target_says_so(terminals: Terminals, sshd: Sshd, agent: str) -> None:  # noqa: F811
    """And lends its keys to nobody over there."""
    remote = Remote(terminals, sshd)
    await remote.start("echo agent=${SSH_AUTH_SOCK:-none}", key_file="", agent_path=agent)
    async with terminals.seat("owner", fence=1) as owner:
        assert (await owner.news_of("exit"))["exit"] == 0
        assert b"agent=none" in owner.output
    assert (await remote.judged())["gone"] is True


async def test_without_a_key_nobody_is_let_in(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """The library would take what lies in our home folder."""
    remote = Remote(terminals, sshd)
    remote.home = sshd.folder / "home"
    (remote.home / ".ssh").mkdir(parents=True)
    (remote.home / ".ssh/id_ed25519").hardlink_to(sshd.key_file)
    await remote.start(key_file="")
    async with terminals.seat("owner", fence=1) as owner:
        await owner.sees("names neither a key file nor an agent")
        assert (await owner.news_of("exit"))["exit"] == 255
    assert (await remote.judged())["code"] == "ssh_no_key"
    assert b"Accepted" not in (sshd.folder / "log").read_bytes()


async def test_the_last_output_before_the_end_arrives_whole(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """B56, with more than the connection holds under way."""
    remote = Remote(terminals, sshd)
    await remote.start("seq 1 100000")
    async with terminals.seat("owner", fence=1) as owner:
        assert (await owner.news_of("exit"))["end"] == 688_895
        assert owner.output.endswith(b"\r\n99999\r\n100000\r\n")


async def test_ctrl_c_in_a_flood_reaches_the_program_there(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """B44."""
    remote = Remote(terminals, sshd)
    await remote.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo be''gun; yes\r")
        await pilot.until(lambda seat: seat.begin + len(seat.output) > 1_000_000)
        pilot.type(b"\x03")
        pilot.type("echo ba''ck\r")
        await pilot.sees("back\r\n")


async def test_a_stop_ends_what_has_left_the_session_there(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """B43 on another machine: neither a new session nor a deaf program stays."""
    remote, marker = Remote(terminals, sshd), a_marker()
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type(f"( ( setsid sh -c \"trap '' HUP TERM; sleep {marker}; sleep {marker}\" & ) & ); echo be''gun\r")
        await pilot.sees("begun")
        await wait_until(lambda: living(marker))
        owner.terminal.command(stop=20)
        proof = await owner.news_of("gone")
        assert (proof["cause"], proof["by_itself"]) == ("stop", False)
        assert not living(marker)
    assert await remote.judged() == {"gone": True, "error": "", "code": ""}


async def test_a_lost_connection_ends_it_and_what_ran_there_is_ended_over_a_new_one(
    terminals: Terminals,
    sshd: Sshd,  # noqa: F811
) -> None:
    remote, marker = Remote(terminals, sshd), a_marker()
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type(f"trap '' HUP; (setsid sleep {marker} &); echo be''gun\r")
        await pilot.sees("begun")
        await wait_until(lambda: living(marker))
        sshd.cut()
        assert (await owner.news_of("exit"))["exit"] == 255
        await owner.sees("The connection to 127.0.0.1 was lost.")
        assert not living(marker)
    judged = await remote.judged()
    assert (judged["gone"], judged["code"]) == (True, "ssh_connection_lost")


async def test_without_a_look_at_the_other_side_nothing_is_proven(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """The machine is gone for good: its shell may live on, and nobody says that it ended."""
    remote = Remote(terminals, sshd)
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type("echo be''gun\r")
        await pilot.sees("begun")
        sshd.end()
        await owner.news_of("exit")
    judged = await remote.judged()
    assert judged["gone"] is False
    assert "is not proven" in judged["error"]


async def test_neither_key_nor_place_is_seen_there_or_in_the_list_of_processes(
    terminals: Terminals,
    sshd: Sshd,  # noqa: F811
) -> None:
    remote = Remote(terminals, sshd)
    await remote.start()
    async with remote.seats() as (_, pilot):
        pilot.type("env; cat /proc/self/environ; echo do''ne\r")
        await pilot.sees("done\r\n")
        assert str(sshd.key_file).encode() not in pilot.output
        (ward,) = terminals.wards()
        (program,) = ward.children()
        seen = " ".join([*program.cmdline(), *program.environ().values()])
        assert str(sshd.key_file) not in seen
        assert sshd.username not in program.cmdline()
    assert not (sshd.folder / "spec.json").exists()


async def test_a_terminal_that_no_worker_comes_for_ends_on_the_other_machine_too(
    terminals: Terminals,
    sshd: Sshd,  # noqa: F811
) -> None:
    """Killed at once, its program could clear nothing there, and nobody would ever know."""
    remote, marker = Remote(terminals, sshd), a_marker()
    remote.adopt_seconds = 3.0
    await remote.start(f"setsid sleep {marker} & sleep {marker}")
    async with terminals.seat("owner", fence=1):
        await wait_until(lambda: len(living(marker)) >= 2, seconds=30)
        (ward,) = terminals.wards()
    await wait_until(lambda: not ward.is_running(), seconds=30)
    assert await remote.judged() == {"gone": True, "error": "", "code": ""}
    assert not living(marker)


async def ended(remote: Remote, command: str, count: int) -> None:
    """Start `count` processes there, cut the connection, and see that all of them are ended over a new one."""
    marker = a_marker()
    await remote.start()
    async with remote.seats() as (owner, pilot):
        pilot.type("echo be''gun\r")
        await pilot.sees("begun")
        pilot.type(command.replace("MARKER", marker) + "\r")
        await wait_until(lambda: len(living(marker)) >= count, seconds=30)
        remote.server.cut()
        await owner.news_of("exit")
        assert not living(marker)
    assert (await remote.judged())["gone"] is True


async def test_a_cleaned_environment_hides_no_child_and_nobody_in_the_session(
    terminals: Terminals,
    sshd: Sshd,  # noqa: F811
) -> None:
    """B43: the first is known by its parent, the second, whose parent has gone, by its session."""
    unmarked = "env -i /bin/sleep MARKER"
    await ended(Remote(terminals, sshd), f"setsid sh -c '{unmarked} & ({unmarked} &); sleep MARKER; :' &", 4)


async def test_a_machine_without_the_tools_to_look_proves_nothing(
    terminals: Terminals,
    sshd: Sshd,  # noqa: F811
) -> None:
    """An empty answer of a look that saw nothing is no proof: here there is no grep."""
    remote = Remote(terminals, sshd)
    sshd.leave_only("sh", "env", "cut", "cat", "awk", "sleep", "echo")
    await remote.start("echo be''gun; read x")
    async with remote.seats() as (owner, pilot):
        await pilot.sees("begun")
        pilot.type("\r")
        await owner.news_of("exit")
    judged = await remote.judged()
    assert (judged["gone"], "does not let us look" in judged["error"]) == (False, True)


async def test_another_terminal_of_the_same_account_is_left_alone(terminals: Terminals, sshd: Sshd) -> None:  # noqa: F811
    """And so is a program that only mentions the mark."""
    remote, marker = Remote(terminals, sshd), a_marker()
    other = f"env {ssh.MARK}=shell_other setsid sleep {marker}"
    talks = f"setsid sh -c 'sleep {marker}; : {ssh.MARK}={remote.mark}'"
    async with asyncssh.connect(
        "127.0.0.1",
        sshd.port,
        username=sshd.username,
        client_keys=[str(sshd.key_file)],
        known_hosts=([asyncssh.import_public_key(sshd.host_key)], [], []),
    ) as outside:
        for command in (other, talks):
            await outside.run(f"{command} >/dev/null 2>&1 &")
        await wait_until(lambda: len(living(marker)) == 3, seconds=30)
        await remote.start("true")
        assert (await remote.judged())["gone"] is True
        left = living(marker)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert len(left) == 3
