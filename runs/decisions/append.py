"""The hot append: the events of many runs in one statement and one commit.

A run whose fence is stale, or that has ended, is left out alone. Each run's batch carries a number: a batch
whose answer was lost can be sent again and is stored once (RULES H10). Runs are locked in id order, at most
64 of them (RULES H16); commit order is seq order, because both come from the run's row.

The events go as lines of one text: as a text[] the driver escapes each element, which took two thirds of a worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from uuid import UUID

from runs.decisions.core import Decision, Query, told_params
from runs.frames import Draft

MAX_RUNS = 64
MAX_ROWS = 500

APPEND = """
with want as (
  select * from unnest(%(ids)s::uuid[], %(fences)s::int8[], %(batches)s::int8[], %(counts)s::int4[],
    %(befores)s::int4[]) w(id, fence, batch, n, before)
), held as (
  select r.id, r.stream_id, r.last_batch, r.last_batch_seq, w.n, w.batch, w.before
  from runs_run r join want w on w.id = r.id and w.fence = r.fence
  where r.status in ('running', 'cancel_requested', 'cancelling')
    and w.batch in (r.last_batch, r.last_batch + 1)
  order by r.id for no key update of r
), bump as (
  update runs_run r set last_seq = r.last_seq + h.n, last_batch = h.batch, last_batch_seq = r.last_seq + 1
  from held h where r.id = h.id and h.batch = h.last_batch + 1
  returning r.id, r.stream_id, r.last_seq - h.n as base, h.n, h.before
), ins as (
  insert into runs_event (stream_id, seq, type, data)
  select b.stream_id, b.base + e.place - b.before, e.type, e.data
  from unnest(string_to_array(%(types)s::text, E'\\n'), string_to_array(%(texts)s::text, E'\\n'))
    with ordinality e(type, data, place)
  join bump b on e.place > b.before and e.place <= b.before + b.n
)
select id, base + 1 as first_seq from bump
union all select id, last_batch_seq from held where batch = last_batch"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one run: `number` is one more than that of the claim's last batch (the first is 1)."""

    run_id: UUID
    fence: int
    number: int
    drafts: Sequence[Draft]


def append_many(batches: Sequence[Batch]) -> Decision[dict[UUID, int]]:
    """Store the batches; returns the first seq of each.

    A run that is missing in the answer was lost (stale fence, ended, or a batch number that does not follow):
    its rows were not stored.
    """
    assert len(batches) <= MAX_RUNS
    assert len({b.run_id for b in batches}) == len(batches)  # one batch of a run is in flight at a time
    counts = [len(b.drafts) for b in batches]
    drafts = [d for b in batches for d in b.drafts]
    rows = yield Query(
        APPEND,
        {
            "ids": [b.run_id for b in batches],
            "fences": [b.fence for b in batches],
            "batches": [b.number for b in batches],
            "counts": counts,
            "befores": [0, *accumulate(counts[:-1])],
            **told_params(drafts),
        },
    )
    return {row["id"]: row["first_seq"] for row in rows}
