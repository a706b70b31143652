"""The view of a run's current stream: its checkpoint, and the events after it. The only SQL that reads both.

One statement, so view and cursor are of one moment (RULES H18). A checkpoint of another fold is used only where there
is nothing else: where the events below it are deleted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from runs.compaction import coalesce
from runs.fold import FOLD_VERSION, View, empty_view, fold_all
from runs.frames import decode

# The run's row comes as seq 0, the checkpoint as seq -1: as columns beside each event they would cost more than those.
SNAPSHOT = """
with r as (select stream_id, attempt, status, last_seq, floor_seq from runs_run where id = %(run)s),
c as (
  select seq, view from runs_checkpoint
  where stream_id = (select stream_id from r) and (fold_version = %(fold)s or floor_seq > 1)
)
select 0::bigint as seq, concat_ws(' ', stream_id, attempt, status, last_seq, floor_seq) as data from r
union all
select -1, view from c
union all
select e.seq, e.data from runs_event e
where e.stream_id = (select stream_id from r) and e.seq > coalesce((select seq from c), 0)"""


class Found(NamedTuple):
    """What SNAPSHOT gave. row: the columns of the run's row as one text; view: the checkpoint's, as JSON."""

    row: str
    view: str | None
    events: Sequence[tuple[int, str]]

    def fold(self) -> View:
        """Fold the events after the checkpoint; takes a while where there is no checkpoint of a long stream."""
        return fold_stored(self.events, read_view(self.view))


def snapshot_params(run_id: UUID) -> Mapping[str, Any]:
    """Give the parameters of SNAPSHOT."""
    return {"run": run_id, "fold": FOLD_VERSION}


def found_of(rows: Iterable[tuple[int, str]]) -> Found | None:
    """Sort out the rows of SNAPSHOT; None: there is no such run."""
    by_seq = sorted(rows, key=lambda row: row[0])
    view = by_seq.pop(0)[1] if by_seq and by_seq[0][0] < 0 else None
    return Found(by_seq[0][1], view, by_seq[1:]) if by_seq else None


def read_view(text: str | None) -> View | None:
    """Read a stored view. One of an older fold gets the parts that are new."""
    return None if text is None else {**empty_view(), **json.loads(text)}


def fold_stored(events: Iterable[tuple[int, str]], view: View | None) -> View:
    """Fold stored events on from a view. Each delta copies its text, so they are joined before: a tenth of the time."""
    return fold_all(coalesce(decode(seq, text) for seq, text in events), view)
