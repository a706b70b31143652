"""Counting the deaths of workers at the step that was open: what kills its worker each time must not do it for ever.

    1st     the run goes on in any worker
    2nd     the run goes on alone, in a process of its own: whoever merely sat in the same worker gets through there
    3rd     whoever claims it next ends it: failed(worker_lost), or needs_reconciliation if something is unknown

A terminal outlives its worker and is adopted, so the death of a worker that merely owned one says nothing about it.
Only exits that a parent has seen count, and no end that a deploy has brought. A lease that ran out is no death: the
database may have been away. Steps hold the counts; the run's row has the one that decides about its next claim.
"""

from runs.decisions.core import Decision, Query, Row
from runs.decisions.shells import HAS_TERMINAL
from runs.states import DEATHS_TO_ISOLATE

# What a claim needs: a run that must run alone is claimed by who is alone. One that is stopping walks no agent.
MAY_CARRY = f"(deaths <> {DEATHS_TO_ISOLATE} or status in ('cancel_requested', 'cancelling') or %(alone)s)"

# The calls that were open; an agent that died in its own code died after the step that began last.
COUNT = f"""
with adopted as (
  {HAS_TERMINAL.format(run="%(run)s")}
), open_calls as (
  select id from runs_step where stream_id = %(stream)s and state = 'open' and kind in ('model', 'tool')
), newest as (
  select id from runs_step where stream_id = %(stream)s and not exists (select 1 from open_calls)
  order by started_at desc, path desc limit 1
), counted as (
  update runs_step set deaths = deaths + 1
  where id in (select id from open_calls union all select id from newest) and not exists (select 1 from adopted)
  returning deaths
)
update runs_run set deaths = coalesce((select max(deaths) from counted),
  case when exists (select 1 from adopted) then deaths else deaths + 1 end) where id = %(run)s
returning deaths"""


def count_death(run: Row) -> Decision[int]:
    """Count a worker's death for a run that it held; the caller has locked the run. Returns the count that matters."""
    rows = yield Query(COUNT, {"run": run["id"], "stream": run["stream_id"]})
    deaths: int = rows[0]["deaths"]
    return deaths
