"""The model server as a process: how it refuses to start, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.tools.models.conftest import REPOSITORY
from tools.models.server import choose_threads

COMMAND = [sys.executable, "-m", "tools.models.server"]


def refused(*options: str) -> str:
    """Run the server, which must exit with 2; return its one line."""
    result = subprocess.run(
        [*COMMAND, *options], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_threads_leave_room_for_the_workers() -> None:
    assert [choose_threads(cores) for cores in (1, 2, 3, 4, 64)] == [1, 1, 1, 2, 2]


def test_taken_port_is_one_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"Port {port} on 127.0.0.1 is taken" in refused("--port", str(port))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "localhost"])
def test_only_a_loopback_address_is_listened_on(host: str) -> None:
    assert "loopback" in refused("--port", "0", "--host", host)


def test_sigterm_ends_it_with_0_also_while_it_generates() -> None:
    process = subprocess.Popen([*COMMAND, "--port", "0"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        ready = json.loads(lines.readline())
    assert (ready["ready"], ready["pid"]) == (True, process.pid)
    body = json.dumps({"prompt": "The sea", "n_predict": 1500, "stream": True}).encode()
    request = urllib.request.Request(f"{ready['url']}/completion", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.readline()
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux only")
def test_it_ends_with_its_parent_when_asked_to() -> None:
    """The parent is killed with -9, so it cannot end its child itself."""
    code = f"import subprocess; subprocess.run({[*COMMAND, '--port', '0', '--die-with-parent']!r})"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as lines:
        child = json.loads(lines.readline())["pid"]
        os.kill(child, 0)
        parent.kill()
        parent.wait(60)
        assert lines.read() == ""  # the end of file comes when the child, too, has closed its output
