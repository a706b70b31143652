"""What an operator watches: how true Stop was, what is left open, and how much waits. Read from the rows alone.

Any process can answer, and every process gives the same answer: nothing is counted in memory. Two figures must read 0
whatever happens; a test plants each fault that they look for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.database import fetch

WINDOW_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, with the labels that tell it from its neighbours."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. name: snake_case with its unit, without a prefix; help: one English sentence.

    must_be_zero: any other value means that a promise was broken. samples: empty when there is nothing to speak of.
    """

    name: str
    help: str
    samples: tuple[Sample, ...]
    must_be_zero: bool = False


@dataclass(frozen=True, slots=True)
class _Reading:
    """A figure and its statement, whose columns are `value` and the labels. None as a value is no sample."""

    name: str
    help: str
    sql: str
    labels: tuple[str, ...] = ()
    must_be_zero: bool = False


_MINE = "(%(tenants)s::uuid[] is null or r.tenant_id = any(%(tenants)s::uuid[]))"
_SINCE = "clock_timestamp() - %(window)s * interval '1 second'"
_READINGS = (
    _Reading(
        "stop_seconds",
        "From the request to stop to the end of the run, over the last day.",
        f"""select q.name as quantile, percentile_cont(q.at) within group (order by s.seconds) as value
            from (select extract(epoch from r.terminal_at - r.cancel_requested_at)::float8 as seconds from runs_run r
                  where r.cancel_requested_at >= {_SINCE} and r.terminal_at is not null and {_MINE}) s,
                 (values ('0.5', 0.5), ('0.95', 0.95), ('1', 1.0)) q(name, at)
            group by q.name, q.at order by q.at""",
        labels=("quantile",),
    ),
    _Reading(
        "work_started_after_stop",
        "Calls whose dispatch was committed after the request to stop, over the last day.",
        f"""select count(*) as value from runs_run r join runs_step s on s.run_id = r.id and s.stream_id = r.stream_id
            left join runs_operation o on o.step_id = s.id
            where r.cancel_requested_at >= {_SINCE} and {_MINE}
              and (s.started_at > r.cancel_requested_at or o.dispatched_at > r.cancel_requested_at)""",
        must_be_zero=True,
    ),
    _Reading(
        "partial_output_final",
        "Texts that are marked as final although their model call did not finish, over the last day.",
        f"""select count(*) as value from runs_attempt a join runs_run r on r.id = a.run_id
            join runs_event e on e.stream_id = a.stream_id and e.type = 'text.end'
            join runs_step s on s.stream_id = a.stream_id
              and 'step_' || replace(s.id::text, '-', '') = e.data::jsonb ->> 'step_id'
            where a.ended_at >= {_SINCE} and {_MINE} and s.state <> 'finished'
              and (e.data::jsonb -> 'data' ->> 'final')::boolean""",
        must_be_zero=True,
    ),
    _Reading(
        "stuck_stopping_runs",
        "Runs that are still stopping after their stop deadline and a supervisor's time to act.",
        f"""select count(*) as value from runs_run r where r.status in ('cancel_requested', 'cancelling')
            and r.stop_deadline_at < clock_timestamp() - %(patience)s * interval '1 second' and {_MINE}""",
    ),
    _Reading(
        "orphan_operations",
        "Operations that were sent and whose run nobody holds.",
        f"""select count(*) as value from runs_operation o join runs_run r on r.id = o.run_id
            where o.state = 'dispatched' and {_MINE} and (r.lease_until is null
              or r.lease_until < clock_timestamp() - %(patience)s * interval '1 second')""",
    ),
    _Reading(
        "unknown_operations",
        "Operations of which nobody knows yet whether they happened.",
        f"""select count(*) as value from runs_operation o join runs_run r on r.id = o.run_id
            where o.state = 'unknown' and {_MINE}""",
    ),
    _Reading(
        "contradicted_operations",
        "Operations whose settled outcome a later receipt contradicts.",
        f"""select count(*) as value from runs_operation o join runs_run r on r.id = o.run_id
            where o.contradicted_at is not null and {_MINE}""",
    ),
    _Reading(
        "reconciliation_ratio",
        "Share of the runs that ended in the last day which needed reconciliation and still do.",
        f"""select avg((r.status = 'needs_reconciliation')::int)::float8 as value from runs_run r
            where r.terminal_at >= {_SINCE} and {_MINE}""",
    ),
    _Reading(
        "oldest_reconciliation_seconds",
        "For how long the oldest run has been waiting to be reconciled.",
        f"""select extract(epoch from clock_timestamp() - min(r.terminal_at))::float8 as value from runs_run r
            where r.status = 'needs_reconciliation' and {_MINE}""",
    ),
    _Reading(
        "runs",
        "Runs that have not ended or are not settled, by status.",
        f"""select r.status, count(*) as value from runs_run r where r.status in ('queued', 'running', 'waiting',
              'cancel_requested', 'cancelling', 'needs_reconciliation') and {_MINE}
            group by r.status order by r.status""",
        labels=("status",),
    ),
    _Reading(
        "oldest_queued_seconds",
        "For how long the oldest queued run has been waiting for a worker.",
        f"""select extract(epoch from clock_timestamp() - min(r.created_at))::float8 as value from runs_run r
            where r.status = 'queued' and {_MINE}""",
    ),
    _Reading(
        "busy_workers",
        "Workers that hold a live lease on a run.",
        f"""select count(distinct r.lease_owner) as value from runs_run r
            where r.lease_until > clock_timestamp() and {_MINE}""",
    ),
)


def read_figures(tenants: Sequence[UUID] | None = None) -> list[Figure]:
    """Read every figure, of these tenants or of all. One statement each; none takes a lock."""
    params: dict[str, Any] = {
        "tenants": None if tenants is None else list(tenants),
        "window": WINDOW_SECONDS,
        "patience": limits().lease_seconds,
    }
    return [_read(reading, params) for reading in _READINGS]


def _read(reading: _Reading, params: dict[str, Any]) -> Figure:
    used = {name: value for name, value in params.items() if f"%({name})s" in reading.sql}
    samples = tuple(
        Sample(float(row["value"]), tuple((label, row[label]) for label in reading.labels))
        for row in fetch(reading.sql, used)
        if row["value"] is not None
    )
    return Figure(reading.name, reading.help, samples, reading.must_be_zero)
