"""End what a killed predecessor left behind in this state folder. Only for the holder of its lock."""

import os
import secrets
import signal

from config.stack.identity import (
    ProcessRecord,
    command_line,
    end_process,
    load_record,
    processes_with_environment,
    start_time,
)
from config.stack.state import StateFolder

STACK_VARIABLE = "OUTLIVE_STACK"
LEFTOVER_SECONDS = 5.0


def stack_id(state: StateFolder) -> str:
    """Return the random word that every process of this state folder carries in its environment."""
    path = state.root / "stack_id"
    if not path.exists():
        path.write_text(secrets.token_hex(16))
    return path.read_text()


def end_leftovers(state: StateFolder) -> list[str]:
    """End the recorded children and their children. Returns the names of those that were still there."""
    found = []
    for path in sorted(state.records.glob("*.json")):
        record = load_record(path)
        if record and record.is_alive():
            found.append(record.name)
            end_process(record, first=record.stop_signal, within_seconds=LEFTOVER_SECONDS, last=signal.SIGQUIT)
        path.unlink(missing_ok=True)
    found += end_marked(state, first=signal.SIGTERM, within_seconds=LEFTOVER_SECONDS)
    return found


def end_marked(state: StateFolder, *, first: int, within_seconds: float) -> list[str]:
    """End every process that carries this folder's word, the children of children. Returns their command lines."""
    if not (state.root / "stack_id").exists():
        return []
    found = []
    entry = f"{STACK_VARIABLE}={stack_id(state)}"
    for pid in processes_with_environment(entry):
        if pid == os.getpid():
            continue
        record = ProcessRecord(str(pid), pid, start_time(pid) or "", "")
        if record.is_alive():
            found.append(command_line(pid)[:80])
            end_process(record, first=first, within_seconds=within_seconds)
    return found
