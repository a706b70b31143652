"""Which events are deleted: those of attempts that ended long ago, and the oldest of a stream that is too long.

Always from the start of a stream and below its checkpoint; the view and the cursors above stay good. Deleted a few
thousand at a time, so that no run waits for it. What is held is left alone.
"""

import logging
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions.keeping import Trimming, trim
from runs.retention.checkpoints import keep
from runs.states import SETTLED

logger = logging.getLogger(__name__)

BATCH_ROWS = 5_000
ALL = 2**62  # the checkpoint bounds it
SPARED = 0.25  # of the bytes: a stream at its bound is not cut again at each checkpoint
_SETTLED = ", ".join(f"'{status}'" for status in sorted(SETTLED))

IS_EXPIRED = f"""a.ended_at <= statement_timestamp() - %(days)s * interval '1 day' and a.events_expired_at is null
  and r.status in ({_SETTLED}) and not r.is_held"""
EXPIRED = f"""
select a.stream_id, a.run_id from runs_attempt a join runs_run r on r.id = a.run_id
join runs_checkpoint c on c.stream_id = a.stream_id
where {IS_EXPIRED} order by a.ended_at limit 20"""
IS_OVERSIZE = """not r.is_held
  and (c.seq - c.floor_seq + 1 > %(events)s or c.kept_bytes > %(bytes)s)"""
OVERSIZE = f"""
select c.stream_id from runs_checkpoint c join runs_attempt a on a.stream_id = c.stream_id
join runs_run r on r.id = a.run_id where {IS_OVERSIZE} limit 100"""
SIZE = """
select a.run_id, c.seq, c.floor_seq, c.kept_bytes from runs_checkpoint c
join runs_attempt a on a.stream_id = c.stream_id join runs_run r on r.id = a.run_id
where c.stream_id = %(stream)s and not r.is_held"""
# The newest events that fit: the floor is the first seq of the oldest of them.
FITS = """
select max(seq) + 1 as floor from (
  select seq, sum(octet_length(data)) over (order by seq desc) as bytes
  from runs_event where stream_id = %(stream)s and seq <= %(to)s
) e where bytes > %(bytes)s"""


def expired_streams() -> list[dict[str, Any]]:
    """Find the streams whose events are too old."""
    return fetch(EXPIRED, {"days": limits().events_days})


def oversize_streams() -> list[UUID]:
    """Find streams with too many events or bytes. Reads every checkpoint: for what grows, trim_to_size is asked."""
    limit = limits()
    found = fetch(OVERSIZE, {"events": limit.events_per_stream, "bytes": limit.bytes_per_stream})
    return [row["stream_id"] for row in found]


def expire(due: dict[str, Any]) -> int:
    """Delete all events of a stream that are in its view; returns how many rows were deleted."""
    keep(due["stream_id"])  # what came after the checkpoint, a late verdict for instance, goes as well
    return _trim(due["run_id"], due["stream_id"], ALL, expired_days=limits().events_days)


def trim_to_size(stream_id: UUID) -> int:
    """Delete the oldest events of a stream that has more, or more bytes, than are kept; returns how many."""
    found = fetch(SIZE, {"stream": stream_id})
    if not found:
        return 0
    size = found[0]
    floor = size["seq"] - limits().events_per_stream + 1
    if size["kept_bytes"] > limits().bytes_per_stream:
        spared = int(limits().bytes_per_stream * (1 - SPARED))
        fits = fetch(FITS, {"stream": stream_id, "to": size["seq"], "bytes": spared})
        floor = max(floor, fits[0]["floor"] or 0)
    return _trim(size["run_id"], stream_id, floor) if floor > size["floor_seq"] else 0


def _trim(run_id: UUID, stream_id: UUID, floor: int, *, expired_days: float | None = None) -> int:
    deleted = 0
    while n := decide(trim(Trimming(run_id, stream_id, floor, BATCH_ROWS, expired_days))):
        deleted += n
        if n < BATCH_ROWS:
            break
    if deleted:
        logger.info("events.deleted", extra={"stream_id": stream_id.hex, "rows": deleted})
    return deleted
