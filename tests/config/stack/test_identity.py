"""Only the process that is meant is ever signalled."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.stack.identity import end_process, load_record, record_of, save_record
from config.stack.state import create_folder
from config.stack.takeover import end_leftovers, stack_id
from tests.config.stack.running import wait_until

PAUSE = "import signal; signal.pause()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", PAUSE]) as process:
        yield process
        process.kill()


def test_start_time_and_command_line_must_both_fit(other: subprocess.Popen[bytes]) -> None:
    record = record_of("x", other.pid, "signal.pause")
    wait_until(record.is_alive, "its command line is there: for a moment after exec it is empty")
    started, marked, numbered = replace(record, started="x"), replace(record, marker="x"), replace(record, pid=1)
    for wrong in (started, marked, numbered):
        assert not wrong.is_alive()
        assert end_process(wrong, first=signal.SIGKILL, within_seconds=0)
    assert other.poll() is None


def test_a_zombie_is_gone(other: subprocess.Popen[bytes]) -> None:
    record = record_of("x", other.pid, "")
    os.kill(other.pid, signal.SIGKILL)
    wait_until(lambda: not record.is_alive(), "it is a zombie")
    assert other.returncode is None


def test_a_record_survives_on_disk_and_a_cut_one_is_none(tmp_path: Path) -> None:
    record = record_of("x", os.getpid(), "pytest", stop_signal=signal.SIGINT)
    save_record(tmp_path / "x.json", record)
    assert load_record(tmp_path / "x.json") == record
    (tmp_path / "x.json").write_text('{"name": "x", "pi')
    assert load_record(tmp_path / "x.json") is None
    assert load_record(tmp_path / "no.json") is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_leftovers_are_found_by_the_word_in_their_environment(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    """A grandchild has no record of its own; a process of another stack carries another word."""
    state = create_folder(tmp_path / "state")
    environ = {"PATH": os.environ["PATH"], "OUTLIVE_STACK": stack_id(state)}
    with subprocess.Popen([sys.executable, "-c", PAUSE], env=environ, start_new_session=True) as left:
        marker = record_of("left", left.pid, "")
        wait_until(lambda: b"OUTLIVE_STACK" in Path(f"/proc/{left.pid}/environ").read_bytes(), "it has started")
        assert len(end_leftovers(state)) == 1
        assert not marker.is_alive()
        left.wait()
    assert other.poll() is None
