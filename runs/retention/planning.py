"""What retention would do right now, counted without doing it."""

from typing import Any

from runs.conf import limits
from runs.database import fetch
from runs.decisions.forgetting import MAY_FORGET
from runs.retention.expiry import IS_EXPIRED, IS_OVERSIZE
from runs.retention.folders import old_folders

TEXTS = """
select count(distinct a.stream_id) as streams, count(*) as deltas
from runs_attempt a join runs_run r on r.id = a.run_id
left join runs_checkpoint c on c.stream_id = a.stream_id
join runs_event e on e.stream_id = a.stream_id and e.type = 'text.delta' and e.seq > coalesce(c.compacted_seq, 0)
where a.ended_at <= statement_timestamp() - %(hours)s * interval '1 hour' and not r.is_held"""
EXPIRED = f"""
select count(distinct a.stream_id) as streams, count(*) as events, coalesce(sum(octet_length(e.data)), 0)::int8 as bytes
from runs_attempt a join runs_run r on r.id = a.run_id join runs_event e on e.stream_id = a.stream_id
where {IS_EXPIRED}"""
OVERSIZE = f"""
select count(*) as streams, coalesce(sum(c.kept_bytes), 0)::int8 as bytes_kept
from runs_checkpoint c join runs_attempt a on a.stream_id = c.stream_id join runs_run r on r.id = a.run_id
where {IS_OVERSIZE}"""
FORGOTTEN = f"""
select count(*) as runs from runs_run t
where exists (select 1 from runs_run r where r.id = coalesce(t.root_id, t.id) and {MAY_FORGET})"""
HELD = "select count(*) as runs from runs_run where is_held"


def plan() -> dict[str, dict[str, Any]]:
    """Count what is due, by rule. Reads every event of what is due: an operator's question, not a hot path.

    texts: deltas of attempts that ended long enough ago, to be joined (fewer rows, nothing lost); events: to be deleted
    by age; oversize: streams whose oldest events are to be deleted; folders: of runs, on this machine; runs: to be
    deleted whole; held: never.
    """
    limit = limits()
    params = {
        "hours": limit.compact_after_hours, "events": limit.events_per_stream, "bytes": limit.bytes_per_stream,
    }  # fmt: skip
    return {
        "texts": fetch(TEXTS, params)[0],
        "events": fetch(EXPIRED, {"days": limit.events_days})[0],
        "oversize": fetch(OVERSIZE, params)[0],
        "folders": {"folders": sum(1 for _ in old_folders())},
        "runs": fetch(FORGOTTEN, {"days": limit.runs_days})[0],
        "held": fetch(HELD, {})[0],
    }


def policy() -> dict[str, float]:
    """Give the limits in force (runs/conf.py)."""
    names = ("compact_after_hours", "events_days", "events_per_stream", "bytes_per_stream", "folders_days", "runs_days")
    return {name: getattr(limits(), name) for name in names}
