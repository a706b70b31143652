"""Log files stay bounded, and lines that speak of a problem are found once."""

from pathlib import Path

import pytest

from config.stack import logs
from config.stack.logs import LogWatch, appended_since_now, keep_bounded, last_line


@pytest.mark.parametrize(
    ("line", "is_problem"),
    [
        ("2026-11-29 ERROR runs: lost", True),
        ('{"event": "x", "level": "error"}', True),
        ('{"level":"critical"}', True),
        ("Traceback (most recent call last):", True),
        ("level=error what=x", True),
        ("GET /errors 200", False),
        ("no error here", False),
        ("", False),
    ],
)
def test_what_counts_as_a_problem(tmp_path: Path, line: str, is_problem: bool) -> None:
    path = tmp_path / "x.log"
    watch = LogWatch(path)
    path.write_text(line + "\n")
    assert watch.new_problems() == ([line] if is_problem else [])
    assert watch.new_problems() == []


def test_old_lines_are_not_told_and_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("ERROR old\n")
    watch = LogWatch(path)
    with path.open("a") as file:
        file.write("ERROR ne")
        file.flush()
        assert watch.new_problems() == []
        file.write("w\n")
    assert watch.new_problems() == ["ERROR new"]


def test_a_long_log_is_moved_aside_under_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_LIMIT_BYTES", 10)
    path = tmp_path / "x.log"
    with path.open("ab", buffering=0) as writer:
        watch = LogWatch(path)
        writer.write(b"0123456789abc\n")
        assert watch.new_problems() == []
        keep_bounded(path)
        writer.write(b"ERROR x\n")
    assert (tmp_path / "x.log.1").read_text() == "0123456789abc\n"
    assert watch.new_problems() == ["ERROR x"]
    assert last_line(path) == "ERROR x"


def test_a_word_counts_only_when_it_is_written_after_the_question(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("worker.ready\n")
    is_ready = appended_since_now(path, "worker.ready")
    assert not is_ready()
    with path.open("a") as file:
        file.write("worker.ready\n")
    assert is_ready()
    assert not appended_since_now(tmp_path / "no.log", "x")()


def test_the_last_line_of_nothing_is_empty(tmp_path: Path) -> None:
    assert last_line(tmp_path / "no.log") == ""
