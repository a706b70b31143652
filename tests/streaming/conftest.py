"""A real server process on the test database, and small writers and readers for it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from runs.access import Actor, issue_token
from runs.ids import text_id
from runs.models import Run
from tests.streaming.hostile import Hostile, a_hostile_server

ROOT = Path(__file__).resolve().parents[2]
SCOPES = ["runs:read", "runs:write", "runs:cancel"]


def wait_until(is_true: Callable[[], Any], seconds: float = 60.0, what: str = "the condition") -> Any:
    """Ask again and again until the answer is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = is_true()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


@dataclass
class Site:
    """A running server. `log` is what it has said so far."""

    process: subprocess.Popen[bytes]
    base: str
    log_path: Path

    def url(self, path: str) -> str:
        return self.base + path

    def log(self) -> str:
        return self.log_path.read_text()

    def memory_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4 / 1024

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def test_database_url() -> str:
    """Name the test database in the way that a subprocess takes it."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path="/" + settings.DATABASES["default"]["NAME"]))


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def running_server(folder: Path, **environment: str) -> Iterator[Site]:
    """Run `python -m streaming.server` for the length of a block."""
    port = free_port()
    log_path = folder / f"server-{port}.log"
    env = {**os.environ, "DATABASE_URL": test_database_url(), "DJANGO_SETTINGS_MODULE": "config.settings"}
    env |= {"OUTLIVE_SECRET_KEY": settings.SECRET_KEY, **environment}
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.server", "--port", str(port)], cwd=ROOT, env=env, stdout=log, stderr=log
        )
    site = Site(process, f"http://127.0.0.1:{port}", log_path)
    try:
        wait_until(lambda: "web.listening" in site.log() or process.poll() is not None, 120, "the server")
        assert process.poll() is None, site.log()
        yield site
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(60)


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for the tests of a module."""
    with running_server(tmp_path_factory.mktemp("server"), OUTLIVE_ACCESS_CHECK_SECONDS="0.3") as site:
        yield site


@pytest.fixture
def site(server: Site, transactional_db: None) -> Site:
    """The server, with a database that is emptied after the test."""
    return server


def token_of(actor: Actor, scopes: list[str] = SCOPES) -> str:
    """Make a token for an actor."""
    return issue_token(user=actor.user, tenant=actor.tenant, name="test", scopes=scopes)[1]


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    headers: Any
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call(site: Site, method: str, path: str, token: str, body: Any = None, **headers: str) -> Answer:
    """Call the API and read the whole answer."""
    request = urllib.request.Request(site.url(path), method=method)
    request.add_header("Authorization", f"Bearer {token}")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


@dataclass
class Watcher:
    """A WebSocket client that sorts what it gets."""

    socket: ClientConnection
    events: list[dict[str, Any]] = field(default_factory=list)
    controls: list[dict[str, Any]] = field(default_factory=list)

    def next(self, timeout: float = 60.0) -> list[dict[str, Any]]:
        """Read one message."""
        message = json.loads(self.socket.recv(timeout=timeout))
        frames = message if isinstance(message, list) else [message]
        for frame in frames:
            (self.events if "seq" in frame else self.controls).append(frame)
        return frames

    def until(self, kind: str, timeout: float = 60.0) -> dict[str, Any]:
        """Read until a frame of this type came."""
        end = time.monotonic() + timeout
        while True:
            for frame in self.next(end - time.monotonic()):
                if frame["type"] == kind:
                    return frame

    def until_seq(self, seq: int, timeout: float = 60.0) -> None:
        """Read until this event came."""
        end = time.monotonic() + timeout
        while not self.events or self.events[-1]["seq"] < seq:
            self.next(end - time.monotonic())

    def close_code(self) -> int:
        """Read to the end."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.next()
        assert self.socket.close_code is not None
        return self.socket.close_code

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]


@contextmanager
def watching(site: Site, run: Run, token: str, **query: Any) -> Iterator[Watcher]:
    """Follow a run over WebSocket as a program."""
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    url = f"{site.base.replace('http', 'ws')}/ws/v1/runs/{text_id('run', run.pk)}/?{asked}"
    headers = {"Authorization": f"Bearer {token}"}
    with connect(url, additional_headers=headers, compression=None, max_size=None) as opened:
        yield Watcher(opened)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    """Run a server that answers nonsense."""
    with a_hostile_server() as server:
        yield server
