"""Real stacks of small programs, each in its own state folder, none of them left running after the test."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.stack.embedded_postgres import postgres_spec
from config.stack.ports import free_ports
from config.stack.state import create_folder
from config.stack.takeover import end_leftovers
from tests.config.stack.running import WAIT_SECONDS, Running


@pytest.fixture(scope="session")
def fresh_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that was made and never started: copying it is ten times as fast as making it."""
    state = create_folder(tmp_path_factory.mktemp("template"))
    postgres_spec(state, os.environ)
    return state.root / "pg" / "data"


@pytest.fixture
def start_up(tmp_path: Path, fresh_data: Path) -> Iterator[Callable[..., Running]]:
    """Start a stack: `start_up("crash")`. All of them share one state folder."""
    started: list[Running] = []
    state = tmp_path / "state"
    port = free_ports(1)[0]
    shutil.copytree(fresh_data, state / "pg" / "data")

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
