"""Orders that broke an invariant once. Each is a file whose first line is its trace; CI replays them all."""

import hashlib
from pathlib import Path

from tests.explore.orders import Failed

FOLDER = Path(__file__).with_name("kept")


def keep(failed: Failed) -> Path:
    """Write a failed order down; the same one again is the same file."""
    scenario, _, schedule = failed.trace.partition(":")
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{scenario}-{hashlib.sha256(schedule.encode()).hexdigest()[:8]}.txt"
    path.write_text(f"{failed}\n")
    return path


def kept_traces() -> list[str]:
    """Return the trace of each order that was kept."""
    return [path.read_text().splitlines()[0] for path in sorted(FOLDER.glob("*.txt"))]
