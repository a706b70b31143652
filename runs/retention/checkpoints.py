"""Checkpoints: the folded view of a stream, stored again whenever it has grown, so that nobody folds a long log.

A snapshot is then the checkpoint and the few events after it (runs/snapshots.py). Running streams get one for each 500
events, and more rarely once their view is large; streams that have ended get a last one, at once if they are long, else
when their texts are to be joined.
"""

import json
import logging
from typing import Any
from uuid import UUID

from runs.compaction import coalesce
from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions.keeping import NewView, keep_view, pass_over
from runs.fold import FOLD_VERSION, fold_all
from runs.fold_parts import first_seq
from runs.frames import decode
from runs.snapshots import read_view
from runs.states import ENDED, Status

logger = logging.getLogger(__name__)

PAGE = 5_000  # events that are in memory at a time
BATCH = 500  # streams that are looked at in one go
_OPEN = ", ".join(f"'{status}'" for status in Status if status not in ENDED)
# A view of n bytes is written again for each n / 1024 events at most: else a long text would be written all the time.
_IS_LONG = """r.last_seq - coalesce(c.seq, 0) >= greatest(%(events)s, octet_length(c.view) / 1024)"""

GROWN = f"""
select r.stream_id from runs_run r left join runs_checkpoint c on c.stream_id = r.stream_id
where r.status in ({_OPEN}) and {_IS_LONG} limit {BATCH}"""
# Not clock_timestamp(): that may change from row to row, so no index on a time can be used (100,000 runs: 340 ms).
# A long run that ended between two looks. If no supervisor looked for five minutes, it waits for OLD.
ENDED_LONG = f"""
select a.stream_id from runs_attempt a join runs_run r on r.id = a.run_id and r.stream_id = a.stream_id
left join runs_checkpoint c on c.stream_id = a.stream_id
where a.ended_at > statement_timestamp() - interval '5 minutes' and not a.is_kept and {_IS_LONG} limit {BATCH}"""
ENDED_OLD = f"""
select a.stream_id from runs_attempt a where a.ended_at <= statement_timestamp() - %(hours)s * interval '1 hour'
and not a.is_kept order by a.ended_at limit {BATCH}"""
OF_OLDER_FOLD = f"select stream_id from runs_checkpoint where fold_version < %(fold)s limit {BATCH}"
DUE = (GROWN, ENDED_LONG, ENDED_OLD, OF_OLDER_FOLD)

BASE = "select seq, view, fold_version, floor_seq from runs_checkpoint where stream_id = %(stream)s"
EVENTS = f"""
select seq, data from runs_event where stream_id = %(stream)s and seq > %(after)s and seq <= %(after)s + {PAGE}
order by seq"""


def due_streams() -> list[UUID]:
    """Find the streams whose checkpoint is behind."""
    limit = limits()
    params = {
        "events": min(limit.checkpoint_events, limit.events_per_stream), "hours": limit.compact_after_hours,
        "fold": FOLD_VERSION,
    }  # fmt: skip
    return list(dict.fromkeys(row["stream_id"] for sql in DUE for row in fetch(sql, params)))


def keep(stream_id: UUID) -> bool:
    """Bring a stream's checkpoint to its newest event. False: another supervisor did, or there is nothing to fold."""
    base = _base_of(stream_id)
    if base is not None and base["fold_version"] > FOLD_VERSION:
        return False  # a supervisor of a newer version looks after it
    # A view of another fold counts for nothing, unless the events that it was made of are deleted.
    is_usable = base is not None and (base["fold_version"] == FOLD_VERSION or base["floor_seq"] > 1)
    log = _Log(stream_id, base if is_usable else None)
    is_whole = log.read()
    if not is_whole:
        if _base_of(stream_id) != base:
            return False  # another supervisor was first, and joined or deleted events that we were about to read
        logger.error("checkpoint.hole", extra={"stream_id": stream_id.hex, "after": log.seq})
    if not is_whole or log.view is None:
        decide(pass_over(stream_id))
        return False
    text = json.dumps(log.view, separators=(",", ":"))
    was = None if base is None else base["seq"]
    new = NewView(stream_id, was, log.seq, text, log.bytes, is_anew=not is_usable)
    is_kept = decide(keep_view(new, compact_after_hours=limits().compact_after_hours))
    if is_kept:
        logger.info("checkpoint.kept", extra={"stream_id": stream_id.hex, "seq": log.seq})
    return is_kept


def _base_of(stream_id: UUID) -> dict[str, Any] | None:
    found = fetch(BASE, {"stream": stream_id})
    return found[0] if found else None


class _Log:
    """Folds a stream's events from a checkpoint on, a page at a time."""

    def __init__(self, stream_id: UUID, base: dict[str, Any] | None) -> None:
        self.stream_id = stream_id
        self.view = read_view(base["view"]) if base is not None else None
        self.seq: int = base["seq"] if base is not None else 0
        self.bytes = 0

    def read(self) -> bool:
        """Fold to the end. False: an event is missing, and a view with a hole is not to be stored."""
        while events := fetch(EVENTS, {"stream": self.stream_id, "after": self.seq}):
            frames = [decode(row["seq"], row["data"]) for row in events]
            for frame in frames:
                if first_seq(frame) != self.seq + 1:
                    return False
                self.seq = frame["seq"]
            self.view = fold_all(coalesce(frames), self.view)
            self.bytes += sum(len(row["data"]) for row in events)
        return True
