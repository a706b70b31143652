"""The target as a process: restart, signals, ports."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.target.conftest import Target, client_for

REPOSITORY = Path(__file__).parents[3]


def start(state: Path, *options: str) -> tuple[subprocess.Popen[str], Target]:
    """Start a target on free ports and wait for its ready line."""
    command = [sys.executable, "-m", "tools.target", "--port", "0", "--smtp-port", "0", "--state", str(state), *options]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        ready = json.loads(lines.readline())
    assert ready["pid"] == process.pid
    return process, Target(client_for(ready["url"]), ready["smtp_port"])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Target]]:
    """A target process, and a client for it."""
    process, target = start(tmp_path / "state")
    yield process, target
    target.http.close()
    process.kill()
    process.wait(60)


def test_killed_target_comes_back_with_its_effects(
    running: tuple[subprocess.Popen[str], Target], tmp_path: Path
) -> None:
    process, target = running
    invoice = target.invoice("k1", fence=3).json()
    target.http.post("/operations/k2/seal")
    process.kill()
    process.wait(60)
    second, again = start(tmp_path / "state")
    assert again.count("k1") == 1
    repeated = again.invoice("k1", fence=3)
    assert (repeated.status_code, repeated.json()) == (200, invoice)
    assert again.invoice("k1", fence=2).status_code == 409
    assert again.invoice("k2").status_code == 410
    again.http.close()
    second.terminate()
    assert second.wait(60) == 0


def test_sigterm_ends_it_although_a_client_waits_for_its_answer(
    running: tuple[subprocess.Popen[str], Target],
) -> None:
    process, target = running
    target.switch(never_answer=True)
    body = b'{"customer":"A","amount_cents":1}'
    head = b"POST /invoices HTTP/1.1\r\nhost: x\r\nidempotency-key: k1\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", target.http.base_url.port or 0), timeout=60) as waiting:
        waiting.sendall(head + body)
        while target.count("k1") == 0:
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert waiting.recv(1) == b""


def test_taken_port_is_one_line_and_exit_code_2(running: tuple[subprocess.Popen[str], Target], tmp_path: Path) -> None:
    port = str(running[1].http.base_url.port)
    command = [sys.executable, "-m", "tools.target", "--port", port, "--smtp-port", "0", "--state", str(tmp_path / "s")]
    second = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 2
    assert second.stderr.startswith(f"target: Port {port} on 127.0.0.1 is taken")
    assert second.stderr.count("\n") == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux only")
def test_target_ends_with_its_parent_when_asked_to(tmp_path: Path) -> None:
    """The parent is killed with -9, so it cannot end its child itself."""
    parent_code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'tools.target', '--port', '0', "
        "'--smtp-port', '0', '--state', sys.argv[1], '--die-with-parent']); p.wait()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_code, str(tmp_path / "s")], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout as lines:
        assert json.loads(lines.readline())["ready"]
        parent.kill()
        parent.wait(60)
        assert lines.read() == ""  # the end of file comes when the child, too, has closed its output
