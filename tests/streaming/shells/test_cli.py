"""`outlive shell` in a real terminal: raw mode, size, detach, reattach, and the exit code of the shell."""

import contextlib
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from runs.access import Actor
from runs.models import Shell
from tests.builders import an_agents_shell
from tests.streaming.conftest import ROOT, token_of
from tests.streaming.shells.conftest import SCOPES, Place, key_of

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 90.0  # a command starts in one on a quiet machine


@dataclass
class Screen:
    """A command in a terminal of ours."""

    process: subprocess.Popen[bytes]
    master: int
    output: bytearray = field(default_factory=bytearray)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def sees(self, text: str) -> None:
        """Read until the terminal shows it."""
        end = time.monotonic() + SECONDS
        while text.encode() not in self.output:
            assert time.monotonic() < end, f"it never came: {bytes(self.output[-500:])!r}"
            self._read(0.2)

    def leave(self) -> int:
        """Read to the end; give the exit code."""
        end = time.monotonic() + SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.05)
        self._read(0.05)
        return self.process.wait(1)

    def _read(self, seconds: float) -> None:
        with contextlib.suppress(OSError):  # EIO: the command has gone
            if select.select([self.master], [], [], seconds)[0]:
                self.output += os.read(self.master, 65536)

    def resize(self, rows: int, cols: int) -> None:
        """Pull at the window."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


@contextmanager
def outlive(place: Place, actor: Actor, *words: str) -> Iterator[Screen]:
    """Run the command line in a terminal for the length of a block."""
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
    env = {**os.environ, "OUTLIVE_BASE_URL": place.site.base, "OUTLIVE_TOKEN": token_of(actor, SCOPES), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "runs.cli", "shell", *words], cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    try:
        yield Screen(process, master)
    finally:
        process.kill()
        process.wait(60)
        os.close(master)


@pytest.fixture
def shell(place: Place, owner: Actor) -> Shell:
    return place.opened(owner)


def test_detach_leaves_it_running_and_attach_finds_it_again(place: Place, owner: Actor, shell: Shell) -> None:
    with outlive(place, owner, "attach", key_of(shell)) as first:
        first.sees("Ctrl-] d leaves it running")
        first.sees("$ ")
        first.type("X=kept; stty size\r")
        first.sees("31 97")
        first.resize(40, 120)
        first.type("while [ \"$(stty size)\" != '40 120' ]; do sleep 0.1; done; echo re''sized\r")
        first.sees("resized")
        first.type("\x1dd")
        assert first.leave() == 0
        assert b"goes on. outlive shell attach shell_" in first.output
    with outlive(place, owner, "attach", key_of(shell)) as again:
        again.sees("resized")
        again.type("echo is-$X; exit 7\r")
        again.sees("is-kept")
        assert again.leave() == 7
        assert b"ended: exit 7 (exited)" in again.output


def test_open_makes_a_shell_of_this_size_and_attaches_to_it(place: Place, owner: Actor) -> None:
    """It waits for the terminal, types into it, and a key opens it only once."""
    words = ("open", "--title", "Mine", "--grace", "90", "--key", "one")
    with outlive(place, owner, *words) as first:
        first.sees("Ctrl-] d leaves it running")
        shell = Shell.objects.select_related("run").get()
        assert (shell.rows, shell.cols) == (31, 97)
        assert (shell.run.title, shell.run.grace_seconds) == ("Mine", 90)
        first.type("echo ea''rly; stty size\r")  # typed before there is a terminal
        place.start(shell)
        first.sees("early\r\n31 97")
        first.type("\x1dd")
        assert first.leave() == 0
    with outlive(place, owner, *words) as again:
        again.sees("early\r\n31 97")
        again.type("exit 7\r")
        assert again.leave() == 7
    assert Shell.objects.count() == 1


def test_a_viewer_watches_and_takes_control_by_a_key(place: Place, owner: Actor, shell: Shell) -> None:
    with contextlib.ExitStack() as people:
        pilot = people.enter_context(outlive(place, owner, "attach", key_of(shell)))
        pilot.sees("$ ")  # whoever comes first is in control
        other = people.enter_context(outlive(place, owner, "attach", key_of(shell)))
        other.sees("$ ")
        pilot.type("echo fi''rst\r")
        other.sees("first")
        pilot.type("printf '\\033[6n'; read -rsd R x; echo; echo answered''\r")
        pilot.type("\x1b[1;1R")  # its terminal answers; the other one was not asked
        other.sees("answered\r\n")
        pilot.sees("answered\r\n")
        assert b"\x1b[6n" not in other.output
        assert b"\x1b[6n" in pilot.output
        other.type("\x1dt")
        other.sees("You are in control")
        pilot.sees("you are watching")
        other.type("echo sec''ond\r")
        pilot.sees("second")


def test_an_agents_shell_is_watched_taken_over_and_handed_back(place: Place, owner: Actor) -> None:
    shell = an_agents_shell(owner)
    place.start(shell)
    with outlive(place, owner, "attach", key_of(shell)) as screen:
        screen.sees("An agent is in control, you are watching")
        screen.type("\x1dt")
        screen.sees("hand it back: Ctrl-] b")
        screen.type("echo mi''ne\r")
        screen.sees("mine\r\n")
        screen.output.clear()
        screen.type("\x1db")
        screen.sees("An agent is in control, you are watching")
    shell.refresh_from_db()
    assert shell.held_by is None


def test_without_a_terminal_it_says_so(place: Place, owner: Actor, shell: Shell) -> None:
    env = {**os.environ, "OUTLIVE_BASE_URL": place.site.base, "OUTLIVE_TOKEN": token_of(owner, SCOPES)}
    command = [sys.executable, "-m", "runs.cli", "shell", "attach", key_of(shell)]
    ended = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert ended.returncode == 2
    assert b"needs a terminal" in ended.stderr


def test_shells_are_listed_and_ended_for_programs(place: Place, owner: Actor, shell: Shell) -> None:
    env = {**os.environ, "OUTLIVE_BASE_URL": place.site.base, "OUTLIVE_TOKEN": token_of(owner, SCOPES)}

    def said(*words: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "runs.cli", "shell", *words, "--json"]
        ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=60, check=True)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    assert [(row["id"], row["status"]) for row in said("list")] == [(key_of(shell), "queued")]
    assert said("end", key_of(shell), "--note", "done")[0]["status"] == "cancelled"
    assert said("list") == []
    assert [row["id"] for row in said("list", "--all")] == [key_of(shell)]
