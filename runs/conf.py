"""Every tunable of the run's life in one place: unit, default, and why the default is what it is.

Each can be set by an environment variable `OUTLIVE_<NAME>`; a value that is not a positive number, or a time beyond
what clocks can count, stops the process at start.
"""

import os
from dataclasses import dataclass, fields
from functools import cache

MOST_YEARS = 100  # of any time: PostgreSQL and the timers of a process fail at far more, and then nothing is kept
_UNIT_SECONDS = {"seconds": 1, "hours": 3600, "days": 86_400}


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes or counts."""

    lease_seconds: float = 5.0  # a lost host is noticed after this and one sweep
    renew_every_seconds: float = 1.5  # three renewals fit in a lease: two may be lost
    lease_margin_seconds: float = 1.5  # the worker believes its lease ends this much earlier (RULES H15)
    sweep_seconds: float = 0.5  # how late an overdue row may be noticed
    term_grace_seconds: float = 3.0  # TERM, then KILL
    stop_deadline_seconds: float = 10.0  # after a cancel request a supervisor takes the run away
    cleanup_seconds: float = 5.0  # an agent's own cleaning up after a cancel
    look_up_seconds: float = 60.0  # how long the supervisor asks a target before it is the operators'
    ring_again_seconds: float = 5.0  # a queued run that nobody claimed is rung again
    permit_seconds: float = 2.0  # a permit that was not used by then is void (RULES H5)
    max_block_seconds: float = 60.0  # a loop that stands still so long loses its leases (RULES H4)
    drain_seconds: float = 20.0  # a deploy waits so long for step boundaries
    chat_grace_seconds: float = 5.0  # what `cancel` as a policy means: a reload is no departure
    connect_grace_seconds: float = 30.0  # a page that was never opened gets this much more (RULES H17)
    presence_seconds: float = 10.0  # a control connection without a sign of life is gone after this
    streams_per_person: int = 200  # open at once in one web process; pages of one browser need one or two each
    access_check_seconds: float = 5.0  # how long a stream may outlive its reader's rights
    lock_timeout_seconds: float = 2.0  # no decision waits longer for a row (RULES H3)
    busy_seconds: float = 0.05  # a sweep waits so long for a busy row, after it has acted on all others (RULES H16)
    adopt_seconds: float = 600.0  # a terminal whose worker is gone waits so long for the next one
    default_deadline_seconds: float = 3600.0  # a run whose creator states no deadline
    max_deadline_seconds: float = 604_800.0  # one week
    input_timeout_seconds: float = 86_400.0  # an unanswered question expires
    concurrency: int = 64  # runs in one worker process
    unstored_frames: int = 256  # a run's producer waits above this
    unstored_bytes: int = 1 << 20  # a run's producer waits above this
    max_input_bytes: int = 262_144  # the input of a run as JSON
    max_upload_bytes: int = 20 << 20  # one document
    keep_seconds: float = 2.0  # how often the supervisor looks at what is kept of streams
    checkpoint_events: int = 500  # a view is stored again after so many: what a snapshot folds at most, 5 ms
    compact_after_hours: float = 24.0  # a text that ended so long ago is stored in larger pieces
    events_days: float = 90.0  # events of an attempt that ended so long ago are deleted; its last view stays
    events_per_stream: int = 1_000_000  # of a longer one the oldest are deleted: no reader wants them one by one
    bytes_per_stream: int = 1 << 30  # of a larger one the oldest are deleted: it would fill the disk alone
    runs_days: float = 365.0  # a run without an operation is deleted so long after its end; the ledger never is
    folders_days: float = 30.0  # the workspace of a run, and a local shell's home, are deleted so long after its end
    recordings_days: float = 7.0  # what a recorded shell printed is deleted so long after its last output
    max_steps: int = 10_000  # an agent that loops for ever ends as failed


@cache
def limits() -> Limits:
    """Read the limits once per process.

    Raises: ValueError naming the variable whose value is no positive number, or too long a time.
    """
    values: dict[str, float | int] = {}
    for field in fields(Limits):
        raw = os.environ.get(f"OUTLIVE_{field.name.upper()}")
        if raw is None:
            continue
        try:
            value = int(raw) if isinstance(field.default, int) else float(raw)
        except ValueError:
            value = 0
        if not 0 < value < float("inf"):
            raise ValueError(f"OUTLIVE_{field.name.upper()}={raw!r} is not a positive number")
        if value * _UNIT_SECONDS.get(field.name.rsplit("_", 1)[-1], 0) > MOST_YEARS * 365.25 * 86_400:
            raise ValueError(f"OUTLIVE_{field.name.upper()}={raw!r} is longer than {MOST_YEARS} years")
        values[field.name] = value
    return Limits(**values)  # type: ignore[arg-type]
