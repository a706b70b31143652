"""Log files of the children: kept within bounds, and watched for lines that a person should see."""

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

LOG_LIMIT_BYTES = 32 * 1024 * 1024
READ_LIMIT_BYTES = 256 * 1024
LINE_LIMIT = 240
PROBLEM = re.compile(
    r'\b(ERROR|CRITICAL|FATAL|PANIC)\b|^Traceback |level"?[=:] ?"?(error|critical)\b|\[(error|critical) *\]'
)


def last_line(path: Path) -> str:
    """Return the last line that says something, empty when the file is empty or not there."""
    for line in reversed(_tail(path).splitlines()):
        if line.strip():
            return line.strip()[:LINE_LIMIT]
    return ""


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def keep_bounded(path: Path) -> None:
    """Copy a long log aside and cut it. The children append, so that is safe; a few lines may be lost."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > LOG_LIMIT_BYTES:
            shutil.copyfile(path, path.with_name(path.name + ".1"))
            with path.open("r+b") as file:
                file.truncate(0)


def appended_since_now(path: Path, word: str) -> Callable[[], bool]:
    """Return a question: was the word written to the log since this call?"""
    start = path.stat().st_size if path.exists() else 0

    def is_there() -> bool:
        try:
            with path.open("rb") as file:
                file.seek(start)
                return word.encode() in file.read(READ_LIMIT_BYTES)
        except OSError:
            return False

    return is_there


class LogWatch:
    """Reads what was appended to one log since the last look."""

    def __init__(self, path: Path, problem: re.Pattern[str] = PROBLEM) -> None:
        self._path = path
        self._problem = problem
        self._offset = self._size()
        self._rest = b""

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def new_problems(self) -> list[str]:
        """Return the new whole lines that speak of a problem, cut to size. Skips ahead when there is much."""
        size = self._size()
        if size < self._offset:
            self._offset, self._rest = 0, b""
        if size == self._offset:
            return []
        start = max(self._offset, size - READ_LIMIT_BYTES)
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(start)
            text = (self._rest if start == self._offset else b"") + file.read(size - start)
            self._offset = size
            *lines, self._rest = text.split(b"\n")
            found = [line.decode(errors="replace").strip()[:LINE_LIMIT] for line in lines]
            return [line for line in found if self._problem.search(line)]
        return []
