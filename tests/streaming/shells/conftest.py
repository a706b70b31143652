"""A real host of terminals, a real server beside it, and clients of the shell socket."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from runs import shell_frames
from runs.access import Actor
from runs.ids import text_id
from runs.models import Shell
from tests.builders import a_shell
from tests.streaming.conftest import Site, running_server, token_of, wait_until
from tests.tools.builders import ENV
from tools.processes.terminals.link import start_terminal

WARDEN = Path(__file__).parents[3] / "tools/processes/warden.py"
SCOPES = ["runs:read", "runs:cancel", "shells:view", "shells:write"]
QUIET = {**ENV, "PS1": "$ ", "TERM": "xterm-256color", "HISTFILE": ""}
SECONDS = 30.0


@dataclass
class Seat:
    """One client of a shell's socket, and all that it was told. `output` begins at `begin`."""

    socket: ClientConnection
    output: bytearray = field(default_factory=bytearray)
    begin: int | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    taken: int = 0
    typed: int = 0
    acks: bool = True
    generation: int | None = -1  # of the control connection by which input is numbered

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return (self.begin or 0) + len(self.output)

    def next(self, timeout: float = SECONDS) -> None:
        """Read one message."""
        message = self.socket.recv(timeout=max(timeout, 0.001))
        if isinstance(message, bytes):
            self._take(*shell_frames.unpack(message))
            return
        frame = json.loads(message)
        self.frames.append(frame)
        if frame["type"] == "heartbeat" and self.acks:
            with contextlib.suppress(ConnectionClosed):
                self.say("keepalive")
        is_begun = frame["type"] == "ready" or (frame["type"] == "pilot" and frame["mine"] and "taken" in frame)
        if is_begun and frame["generation"] != self.generation:
            self.taken = self.typed = frame["taken"]
            self.generation = frame["generation"]
        elif frame["type"] == "taken":
            self.taken = frame["offset"]
        elif frame["type"] == "skipped":
            self.begin, self.output = frame["to"], bytearray()

    def _take(self, channel: int, offset: int, data: bytes) -> None:
        if channel == shell_frames.SCREEN:
            self.begin, self.output = offset, bytearray()
            return
        assert channel == shell_frames.OUTPUT
        if self.begin is None:
            self.begin = offset
        assert offset == self.end, "a hole, or a repeat"
        self.output += data
        if self.acks:
            with contextlib.suppress(ConnectionClosed):  # what came before the end is still to be read
                self.say("ack", offset=self.end)

    def say(self, kind: str, **fields: Any) -> None:
        """Send a JSON frame."""
        self.socket.send(json.dumps({"type": kind, **fields}))

    def type(self, text: str | bytes) -> None:
        """Type, after all that was typed here before."""
        data = text.encode() if isinstance(text, str) else text
        self.socket.send(shell_frames.pack(shell_frames.INPUT, self.typed, data))
        self.typed += len(data)

    def until(self, fact: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Read until something is true."""
        end = time.monotonic() + seconds
        while not (found := fact()):
            try:
                self.next(end - time.monotonic())
            except TimeoutError as error:
                raise AssertionError(f"it never came: {bytes(self.output[-300:])!r} {self.frames[-8:]}") from error
        return found

    def sees(self, text: str) -> None:
        """Read until the output holds a text."""
        self.until(lambda: text.encode() in self.output)

    def frame(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Read until a frame of this kind, with these fields, has come (also one that came before)."""
        wanted = {"type": kind, **fields}
        found: dict[str, Any] = self.until(lambda: next((f for f in self.frames if wanted.items() <= f.items()), None))
        return found

    def closed_with(self) -> tuple[int, str]:
        """Read to the end; give the code and the announced reason."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.next()
        assert self.frames[-1]["type"] == "closing"
        assert self.frames[-1]["code"] == self.socket.close_code
        return self.frames[-1]["code"], self.frames[-1]["reason"]


@dataclass
class Place:
    """The server, and the folder in which its terminals live."""

    site: Site
    folder: Path
    host: subprocess.Popen[bytes]

    def start(self, shell: Shell, *argv: str) -> None:
        """Start the terminal of a shell; bash without a configuration if nothing is named."""
        command = argv or ("bash", "--norc", "--noprofile", "-i")
        start = async_to_sync(start_terminal)
        start(str(self.folder), command, key=key_of(shell), cwd=str(self.folder), env=QUIET)

    def opened(self, actor: Actor, *argv: str, **more: Any) -> Shell:
        """Make a shell whose terminal runs."""
        shell = a_shell(actor, **more)
        self.start(shell, *argv)
        return shell

    @contextmanager
    def seat(self, shell: Shell, actor: Actor, *, acks: bool = True, **query: Any) -> Iterator[Seat]:
        """Open its socket as a program. Query: role, from_, had."""
        asked = "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())
        url = f"{self.site.base.replace('http', 'ws')}/ws/v1/shells/{key_of(shell)}/?{asked}"
        headers = {"Authorization": f"Bearer {token_of(actor, SCOPES)}"}
        with connect(url, additional_headers=headers, compression=None, max_size=None, max_queue=4) as opened:
            yield Seat(opened, acks=acks)


def key_of(shell: Shell) -> str:
    """Name a shell on the outside, and its terminal on the inside."""
    return text_id("shell", shell.pk)


@pytest.fixture(scope="module")
def terminals() -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Start a host of terminals; its folder has a short name, because a path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="t-") as name:
        process = subprocess.Popen([sys.executable, "-I", "-S", str(WARDEN), "terminals", name], env={})
        wait_until(lambda: Path(name, "host.sock").exists(), 30, "the host of terminals")
        try:
            yield Path(name), process
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def shells_server(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory, terminals: tuple[Path, subprocess.Popen[bytes]]
) -> Iterator[Site]:
    """One server for the tests of a module, which finds these terminals."""
    environment = {"OUTLIVE_TERMINALS": str(terminals[0]), "OUTLIVE_ACCESS_CHECK_SECONDS": "0.3"}
    with running_server(tmp_path_factory.mktemp("server"), **environment) as site:
        yield site


@pytest.fixture(autouse=True)
def tables_are_emptied_first(transactional_db: None) -> None:
    """Let the server give way where it, writing down who left, and the emptying of the tables wait for each other."""
    with connection.cursor() as cursor:
        cursor.execute("set deadlock_timeout = '1min'")


@pytest.fixture
def place(shells_server: Site, terminals: tuple[Path, subprocess.Popen[bytes]], transactional_db: None) -> Place:
    """The server and its terminals, with a database that is emptied after the test."""
    return Place(shells_server, *terminals)
