"""Real stacks of small programs, each in its own state folder, none of them left running after the test."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.stack.ports import free_ports
from config.stack.state import create_folder
from config.stack.takeover import end_leftovers
from tests.config.stack.running import WAIT_SECONDS, Running


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a stack: `start_up("crash")`. All of them share one state folder."""
    started: list[Running] = []
    state = tmp_path / "state"
    port = free_ports(1)[0]

    def start(*words: str, on_port: int | None = None) -> Running:
        started.append(Running(state, on_port or port, *words))
        return started[-1]

    yield start
    for running in started:
        with contextlib.suppress(ProcessLookupError):
            running.process.send_signal(signal.SIGTERM)
        running.process.wait(WAIT_SECONDS)
    if state.exists():
        end_leftovers(create_folder(state))
