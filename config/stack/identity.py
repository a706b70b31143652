"""Which process is meant: a number is not enough, because the kernel gives it to another one later.

A record says pid, start time, boot, and a word of the command line. Only a living process that fits all of
them is ever signalled. Records are files in the state folder, so a later start finds what a killed predecessor left.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")
PROC_STAT_STATE = 0  # index behind the ")" of /proc/<pid>/stat
PROC_STAT_STARTED = 19
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ProcessRecord:
    """One process of ours. `started` is only compared, never read as a time."""

    name: str
    pid: int
    started: str
    marker: str
    stop_signal: int = signal.SIGTERM

    def is_alive(self) -> bool:
        """Tell whether exactly this process still runs. A zombie does not."""
        return start_time(self.pid) == self.started and self.marker in command_line(self.pid)

    def send(self, number: int) -> None:
        """Signal the process if it is still the one that is meant."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def record_of(name: str, pid: int, marker: str, *, stop_signal: int = signal.SIGTERM) -> ProcessRecord:
    """Describe a living process. `marker` is a part of its command line, `stop_signal` its polite end."""
    return ProcessRecord(name, pid, start_time(pid) or "", marker, stop_signal)


def start_time(pid: int) -> str | None:
    """Return a text that no other process with this id has: boot and start. None when there is none."""
    if not PROC.is_dir():
        return _ask_ps(pid, "lstart=") or None
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[PROC_STAT_STATE] in "ZX":
        return None
    return f"{_boot_id()} {fields[PROC_STAT_STARTED]}"


def command_line(pid: int) -> str:
    """Return the command line with spaces between its words, empty when there is no such process."""
    if not PROC.is_dir():
        return _ask_ps(pid, "command=")
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes_with_environment(entry: str) -> Iterator[int]:
    """Yield the ids of processes whose environment holds `NAME=value`. Linux only; elsewhere none."""
    wanted = entry.encode()
    for folder in PROC.glob("[0-9]*"):
        try:
            held = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in held:
            yield int(folder.name)


def save_record(path: Path, record: ProcessRecord) -> None:
    """Write the record so that a reader sees the old or the new one, never a half."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(json.dumps(asdict(record)))
    draft.replace(path)


def load_record(path: Path) -> ProcessRecord | None:
    """Read a record. None when there is none, or it was cut by a crash."""
    try:
        return ProcessRecord(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def end_process(record: ProcessRecord, *, first: int, within_seconds: float, last: int = signal.SIGKILL) -> bool:
    """Send `first`, wait, then `last`, then KILL, to a process that is no child of ours. True once it is gone."""
    for number, seconds in ((first, within_seconds), (last, 2.0), (signal.SIGKILL, 2.0)):
        record.send(number)
        give_up_at = time.monotonic() + seconds
        while record.is_alive():
            if time.monotonic() > give_up_at:
                break
            time.sleep(POLL_SECONDS)
        else:
            return True
    return False


def _boot_id() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "-"


def _ask_ps(pid: int, column: str) -> str:
    done = subprocess.run(["ps", "-o", column, "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()
