"""What a terminal prints is written down whole, with its sizes, up to a bound; and never at the terminal's cost."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tools.processes.terminals.conftest import Terminals
from tools.processes.results import CommandNotStarted
from tools.processes.terminals.recording import Recording


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def printed(path: Path) -> str:
    return "".join(line[2] for line in lines_of(path)[1:] if line[1] == "o")


def test_characters_that_come_in_pieces_are_whole(tmp_path: Path) -> None:
    recording = Recording(str(tmp_path / "r"), rows=24, cols=80)
    for byte in "é家😀".encode():
        recording.output(bytes([byte]))
    recording.output(b"\xff!")
    assert printed(tmp_path / "r") == "é家😀\ufffd!"


def test_at_its_bound_it_says_that_it_ends(tmp_path: Path) -> None:
    recording = Recording(str(tmp_path / "r"), rows=24, cols=80, most_bytes=2000)
    for _ in range(100):
        recording.output(b"x" * 100)
    header, *lines = lines_of(tmp_path / "r")
    assert header["version"] == 2
    assert {line[1] for line in lines[:-1]} == {"o"}
    assert 10 < len(lines) < 20
    assert lines[-1][1:] == ["m", "The recording ends here: it has reached its bound. The terminal went on."]
    assert (tmp_path / "r").stat().st_size < 2200


async def test_a_terminal_is_recorded_with_its_sizes_whoever_comes_and_goes(terminals: Terminals) -> None:
    path = terminals.folder / "r.cast"
    await terminals.start(record_path=str(path), adopt_seconds=30)
    async with terminals.seat("owner", fence=1), terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo on''e\r")
        await pilot.sees("one\r\n")
    async with terminals.seat("pilot", generation=2) as pilot:
        pilot.terminal.resize(30, 100)
        await pilot.news_of("rows")
        pilot.type("stty -echo; echo qui''et; read -r secret; echo tw''o\r")
        await pilot.sees("quiet\r\n")
        pilot.type("hunter2\r")
        await pilot.sees("two\r\n")
    async with terminals.seat("owner", fence=2) as owner:
        owner.terminal.command(stop=0)
        await owner.news_of("gone")
        await owner.until(lambda seat: b"two" in seat.output)
        assert printed(path) == owner.output.decode()
        owner.terminal.command(stored=True)
    header, *lines = lines_of(path)
    assert (header["width"], header["height"]) == (80, 24)
    assert [line[2] for line in lines if line[1] == "r"][-1] == "100x30"
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    assert "hunter2" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_what_cannot_be_recorded_is_not_begun(terminals: Terminals) -> None:
    """People are told that it is recorded, so it is or it does not run."""
    with pytest.raises(CommandNotStarted, match="cannot be recorded: No such file"):
        await terminals.start(record_path="/no/such/folder/r.cast")
    path = terminals.folder / "r.cast"
    path.write_text("another one's")
    with pytest.raises(CommandNotStarted, match="cannot be recorded: File exists"):
        await terminals.start(key="another", record_path=str(path))  # the first one's ward may not have gone yet
    assert path.read_text() == "another one's"


def test_a_full_disk_ends_the_recording_alone(tmp_path: Path) -> None:
    recording = Recording(str(tmp_path / "r"), rows=24, cols=80)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recording._fd)
    os.close(full)
    recording.output(b"lost")
    recording.output(b"lost too")
    assert (tmp_path / "r").read_text().count("\n") == 1
