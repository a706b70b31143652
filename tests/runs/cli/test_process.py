"""The command line as a process of its own: what it imports, Ctrl-C, a terminal, a closed pipe."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.runs.cli.conftest import RUN_ID, STREAM_ID, Act, Script, a_frame, a_run, stream_of

ROOT = Path(__file__).resolve().parent.parent.parent.parent
OUTLIVE = [sys.executable, "-m", "runs.cli"]
PATIENCE_SECONDS = 60.0


@pytest.fixture
def environ(script: Script) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OUTLIVE_", "DJANGO_", "PYTHON"))}
    return kept | {"OUTLIVE_BASE_URL": script.base_url, "OUTLIVE_TOKEN": "outlive_secret", "TERM": "xterm"}


def modules_after(code: str, environ: dict[str, str]) -> set[str]:
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_starting_imports_neither_django_nor_an_http_client_nor_rich(environ: dict[str, str]) -> None:
    loaded = modules_after("import runs.cli", environ)
    for name in ("django", "httpx", "rich", "asyncio"):
        assert name not in loaded, name


def test_a_command_imports_no_django_and_not_httpxs_own_command_line(environ: dict[str, str]) -> None:
    loaded = modules_after("import runs.cli.commands", environ)
    for name in ("django", "rich", "click", "pygments", "pydantic", "runs.models"):
        assert name not in loaded, name
    assert "httpx" in loaded


def an_endless_stream(*frames: dict[str, Any]) -> Act:
    """Send frames, then heartbeats until the client is gone."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        for frame in frames:
            handler.wfile.write(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode())
        handler.wfile.flush()
        try:
            while True:
                time.sleep(0.05)
                handler.wfile.write(b": hb\n\n")
        except OSError:
            handler.close_connection = True

    return act


@pytest.mark.parametrize(
    ("policy", "words"), [("continue", "The run goes on"), ({"grace_s": 5}, "By its policy the run stops itself")]
)
def test_ctrl_c_while_following_detaches_says_so_and_is_0(
    script: Script, environ: dict[str, str], policy: Any, words: str
) -> None:
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(on_disconnect=policy))
    frames = [a_frame(1, "run.started"), a_frame(2, "run.resumed")]
    script.streams = [an_endless_stream(*frames)]
    process = subprocess.Popen(
        [*OUTLIVE, "run", "follow", RUN_ID],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in frames:
        assert "Running" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, (out, err)
    line = err.strip()
    assert line.startswith(f"Detached. {words}")
    assert re.search(rf"outlive run follow {RUN_ID} --after {STREAM_ID}:[12]$", line)
    assert "\n" not in line
    assert script.asked_for(f"POST /api/v1/runs/{RUN_ID}/cancel") == []


def read_until(fd: int, words: bytes) -> bytes:
    """Read a terminal until the words are there."""
    seen, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while words not in seen and time.monotonic() < deadline:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 65_536)
            except OSError:
                break
    return seen


def test_on_a_terminal_the_last_line_moves_and_is_gone_at_the_end(script: Script, environ: dict[str, str]) -> None:
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status="completed", ended_at="x"))
    script.streams = [
        stream_of(
            a_frame(1, "run.started"), a_frame(2, "step.started", {"path": "1", "kind": "model", "name": "local"}, "s"),
            a_frame(3, "text.start", {"message_id": "m"}),
            a_frame(4, "text.delta", {"message_id": "m", "delta": "Hello \x1b[2Jwor"}),
            a_frame(5, "text.delta", {"message_id": "m", "delta": "ld\n"}),
            a_frame(6, "text.end", {"message_id": "m", "final": True}), a_frame(7, "run.completed"),
        )
    ]  # fmt: skip
    main_end, terminal = pty.openpty()
    process = subprocess.Popen(
        [*OUTLIVE, "run", "follow", RUN_ID], cwd=ROOT, env=environ, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    try:
        seen = read_until(main_end, f"Completed. {RUN_ID}".encode())
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
    finally:
        os.close(main_end)
    assert b"Hello world" in seen
    assert b"\x1b[2J" not in seen  # from the run, not ours
    assert b"\x1b[?25h" in seen  # the cursor is shown again


def test_without_a_terminal_the_lines_are_plain(script: Script, environ: dict[str, str]) -> None:
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status="completed", ended_at="x"))
    script.streams = [stream_of(a_frame(1, "run.started"), a_frame(2, "run.completed"))]
    done = subprocess.run([*OUTLIVE, "run", "follow", RUN_ID], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["12:00:01  Running", "12:00:01  Completed", f"Completed. {RUN_ID}"]
    assert done.stderr == ""


def test_a_reader_that_closes_the_pipe_early_is_no_error(script: Script, environ: dict[str, str]) -> None:
    script.answer("GET /runs", 200, {"object": "list", "data": [a_run()] * 5000, "next_cursor": None})
    done = subprocess.run(
        f"{sys.executable} -m runs.cli run list --limit 1000 | head -1",
        shell=True, cwd=ROOT, env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.startswith(RUN_ID)
    assert done.stderr == ""


def test_a_terminal_without_unicode_shows_something(script: Script, environ: dict[str, str]) -> None:
    script.answer("GET /runs", 200, {"object": "list", "data": [a_run(title="你好 …")], "next_cursor": None})
    done = subprocess.run(
        [*OUTLIVE, "run", "list"], cwd=ROOT, env=environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert RUN_ID in done.stdout
