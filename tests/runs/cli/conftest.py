"""A small real HTTP server that plays a script, and the command line run against it in this process."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from runs.cli.app import app
from runs.states import TERMINAL_EVENT

RUN_ID = "run_" + "1" * 32
STREAM_ID = "st_" + "2" * 32
QUESTION_ID = "q_" + "3" * 32


def a_run(**changes: Any) -> dict[str, Any]:
    """Make a run object as the API writes it."""
    path = f"/api/v1/runs/{RUN_ID}"
    return {
        "id": RUN_ID, "object": "run", "status": "running", "title": "A run", "agent": "echo", "input": {},
        "metadata": {}, "created_at": "2026-11-29T12:00:00.000Z", "started_at": None, "ended_at": None,
        "deadline_at": None, "parent_id": None, "children": [], "budget": None,
        "attempt": 1, "stream_id": STREAM_ID, "head_seq": 1, "version": 1,
        "on_disconnect": "continue", "grace_expires_at": None, "waiting": None, "cancel": None,
        "unsettled_operations": [], "result": None, "error": None, "usage": {"input_tokens": 0, "output_tokens": 0},
        "links": {"self": path, "events": f"{path}/events", "cancel": f"{path}/cancel", "html": f"/runs/{RUN_ID}/"},
        **changes,
    }  # fmt: skip


def a_frame(seq: int, kind: str, data: dict[str, Any] | None = None, step: str | None = None) -> dict[str, Any]:
    """Make an event frame."""
    frame = {
        "seq": seq, "v": 1, "type": kind, "run_id": RUN_ID, "attempt": 1, "stream_id": STREAM_ID,
        "ts": "2026-11-29T12:00:01.000Z", "data": data or {},
    }  # fmt: skip
    return frame | ({"step_id": step} if step else {})


@dataclass
class Asked:
    """One request that the server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Read its JSON body."""
        return json.loads(self.body)


type Act = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Script:
    """What the server answers. Each stream request takes the next act of `streams`; the last one stays."""

    base_url: str = ""
    answers: dict[str, tuple[int, Any, dict[str, str]]] = field(default_factory=dict)
    streams: list[Act] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, call: str, status: int, body: Any = None, **headers: str) -> None:
        """Answer `POST /runs` and the like with a fixed body."""
        self.answers[call] = (status, body, {k.replace("_", "-"): v for k, v in headers.items()})

    def asked_for(self, call: str) -> list[Asked]:
        """Give the requests of one kind."""
        return [a for a in self.asked if f"{a.method} {a.path.split('?')[0]}" == call]


def stream_of(*frames: dict[str, Any], is_cut: bool = False) -> Act:
    """Send frames as SSE; cut: the connection breaks in the middle of the answer instead of ending.

    After the end of the run it is closed in order, as the server does it.
    """
    if frames[-1]["type"] in TERMINAL_EVENT.values() and not is_cut:
        frames += ({"type": "closing", "code": 1000, "reason": "ended", "reconnect": False, "retry_after": None},)

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")  # said aloud: a client that kept it would race with our close
        handler.end_headers()
        parts = ["retry: 2000\n\n"]
        for frame in frames:
            at = f"id: {frame['stream_id']}:{frame['seq']}\n" if "seq" in frame else ""
            parts.append(f"{at}event: {frame['type']}\ndata: {json.dumps(frame)}\n\n")
        for part in parts:
            raw = part.encode()
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
        handler.wfile.write(b"5\r\n: h" if is_cut else b"0\r\n\r\n")
        handler.wfile.flush()

    return act


def status_only(status: int) -> Act:
    """Answer a stream request with a bare status."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return act


def drop(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without any answer."""
    handler.close_connection = True


@pytest.fixture
def script() -> Iterator[Script]:
    """Start the server."""
    played = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def play(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            played.asked.append(Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            path = self.path.split("?")[0].removeprefix("/api/v1")
            if path.endswith("/events"):
                act = played.streams.pop(0) if len(played.streams) > 1 else played.streams[0]
                act(self)
                return
            fixed = played.answers[f"{self.command} {path}"]
            if callable(fixed[1]):
                fixed[1](self)
                return
            raw = json.dumps(fixed[1]).encode()
            self.send_response(fixed[0])
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(raw)),
                **fixed[2],
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_DELETE = play

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    played.base_url = f"http://127.0.0.1:{server.server_address[1]}"
    yield played
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Read stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


type Outlive = Callable[..., Ran]


@pytest.fixture
def outlive(script: Script, monkeypatch: pytest.MonkeyPatch) -> Outlive:
    """Run `outlive …` against the server, without waiting between reconnects."""
    monkeypatch.setenv("OUTLIVE_BASE_URL", script.base_url)
    monkeypatch.setenv("OUTLIVE_TOKEN", "outlive_secret")
    monkeypatch.setattr("runs.reading.machine.SHORTEST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr("runs.reading.machine.LONGEST_WAIT_SECONDS", 0.002)

    def run(*words: str, stdin: str | bytes | None = None) -> Ran:
        result = CliRunner().invoke(app, list(words), input=stdin, prog_name="outlive")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run
