"""Joining the deltas of texts that ended long ago: a reader of an old run gets a few frames instead of thousands.

Only below the checkpoint, from the oldest event on, and only up to the first delta of a text that is open or has ended
too lately; after the end of an attempt all its texts have ended.
"""

import logging
from collections.abc import Callable
from typing import Any

from runs.compaction import anything, find_spans
from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions.keeping import Joining, join_texts
from runs.frames import decode, write_time

logger = logging.getLogger(__name__)

BATCH_EVENTS = 5_000  # of one transaction
LOOK_AGAIN_HOURS = 1.0  # at a text that still was too young
_COLUMNS = """c.stream_id, c.seq, c.compacted_seq, c.floor_seq,
  statement_timestamp() - %(hours)s * interval '1 hour' as young_since, a.ended_at"""
DUE = f"""
select {_COLUMNS} from runs_checkpoint c join runs_attempt a on a.stream_id = c.stream_id
join runs_run r on r.id = a.run_id
where c.compact_at <= statement_timestamp() and not r.is_held order by c.compact_at limit 500"""
EVENTS = f"""
select seq, data from runs_event where stream_id = %(stream)s and seq > %(after)s and seq <= %(to)s
order by seq limit {BATCH_EVENTS}"""
ENDS = """
select seq, data from runs_event
where stream_id = %(stream)s and seq > %(after)s and seq <= %(to)s and type = 'text.end'"""


def due_texts() -> list[dict[str, Any]]:
    """Find the streams whose deltas may be old enough."""
    return fetch(DUE, {"hours": limits().compact_after_hours})


def join_next(due: dict[str, Any]) -> int:
    """Join the texts in the next few thousand events of a stream; returns how many rows fewer there are."""
    after = max(due["compacted_seq"], due["floor_seq"] - 1)
    where = {"stream": due["stream_id"], "after": after, "to": due["seq"]}
    frames = [decode(row["seq"], row["data"]) for row in fetch(EVENTS, where)]
    to = frames[-1]["seq"] if len(frames) == BATCH_EVENTS else due["seq"]
    again_hours: float | None = 0.0 if to < due["seq"] else None
    old: Callable[[str], bool] = anything
    if due["ended_at"] is None or due["ended_at"] > due["young_since"]:
        old = _old_texts(where, write_time(due["young_since"])).__contains__
        young = next(
            (f["seq"] for f in frames if f["type"] == "text.delta" and not old(f["data"].get("message_id"))), None
        )
        if young is not None:
            to, again_hours = young - 1, min(LOOK_AGAIN_HOURS, limits().compact_after_hours)
    spans = find_spans([frame for frame in frames if frame["seq"] <= to], may_join=old)
    joining = Joining(due["stream_id"], due["floor_seq"], due["compacted_seq"], to, spans, again_hours)
    if not decide(join_texts(joining)):
        return 0
    saved = sum(span.last - span.first for span in spans)
    if saved:
        logger.info("texts.joined", extra={"stream_id": due["stream_id"].hex, "to": to, "rows_saved": saved})
    return saved


def _old_texts(where: dict[str, Any], young_since: str) -> set[str]:
    ends = [decode(row["seq"], row["data"]) for row in fetch(ENDS, where)]
    return {end["data"]["message_id"] for end in ends if end["ts"] <= young_since}
