"""The one local model server, started once for the whole test session."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def model_server() -> Iterator[str]:
    """The URL of a real model server."""
    command = [sys.executable, "-m", "tools.models.server", "--port", "0", "--die-with-parent"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        ready = json.loads(lines.readline())
    yield ready["url"]
    process.terminate()
    assert process.wait(60) == 0
