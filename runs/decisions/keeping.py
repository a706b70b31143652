"""What is kept of a stream: its checkpoint, joined texts, and the events that retention deletes.

None of these changes a run: they are about rows that were told long ago. Whoever rewrites or deletes events first locks
the stream's checkpoint, so of two supervisors one acts; the order is run, checkpoint, event. Nothing above a checkpoint
is ever joined or deleted (RULES H18), and the schema says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from runs import frames
from runs.compaction import Span
from runs.decisions.core import Decision, Query, lock_run
from runs.fold import FOLD_VERSION
from runs.states import SETTLED


@dataclass(frozen=True, slots=True)
class NewView:
    """A view to be stored. was: the seq of the checkpoint that it was folded from or replaces, None for the first one.

    added_bytes: of the events that were folded since `was`, or of all when it was folded anew (`is_anew`).
    """

    stream_id: UUID
    was: int | None
    seq: int
    text: str
    added_bytes: int
    is_anew: bool


_SETTLED = ", ".join(f"'{status}'" for status in sorted(SETTLED))
# A run whose folders are not wanted any more. A compensation works in the workspace.
MAY_CLEAR = f"""r.status in ({_SETTLED}) and not r.is_held
  and r.terminal_at <= clock_timestamp() - %(days)s * interval '1 day'
  and not exists (select 1 from runs_compensation c join runs_operation o on o.id = c.operation_id
                  where o.run_id = r.id and c.state in ('intended', 'dispatched'))"""
KEEP = """
with kept as (
  insert into runs_checkpoint (stream_id, seq, fold_version, view, kept_bytes, floor_seq, compacted_seq, compact_at)
  select a.stream_id, %(seq)s, %(fold)s, %(view)s, %(bytes)s, 1, 0,
    coalesce(a.ended_at, clock_timestamp()) + %(hours)s * interval '1 hour'
  from runs_attempt a where a.stream_id = %(stream)s
  on conflict (stream_id) do update set seq = excluded.seq, fold_version = excluded.fold_version, view = excluded.view,
    kept_bytes = excluded.kept_bytes + case when %(anew)s then 0 else runs_checkpoint.kept_bytes end,
    compact_at = coalesce(runs_checkpoint.compact_at, excluded.compact_at), made_at = clock_timestamp()
  where runs_checkpoint.seq = %(was)s and runs_checkpoint.fold_version <= excluded.fold_version
    and runs_checkpoint.seq <= excluded.seq
  returning stream_id
), marked as (
  update runs_attempt a set is_kept = true from kept
  where a.stream_id = kept.stream_id and a.ended_at is not null
)
select stream_id from kept"""


def keep_view(new: NewView, *, compact_after_hours: float) -> Decision[bool]:
    """Store a view as the stream's checkpoint. Races: of two supervisors the second finds another `was` and gets False.

    Args: compact_after_hours: after the end of the attempt, or from now, its deltas are looked at.
    """
    rows = yield Query(
        KEEP,
        {"stream": new.stream_id, "was": new.was, "seq": new.seq, "fold": FOLD_VERSION, "view": new.text,
         "bytes": new.added_bytes, "anew": new.is_anew, "hours": compact_after_hours},
        is_alone=True,
    )  # fmt: skip
    return bool(rows)


def pass_over(stream_id: UUID) -> Decision[None]:
    """Note that an ended stream cannot have a checkpoint, so that it keeps nobody from the others."""
    yield Query(
        "update runs_attempt set is_kept = true where stream_id = %(stream)s and ended_at is not null",
        {"stream": stream_id},
    )


@dataclass(frozen=True, slots=True)
class Joining:
    """Texts to be joined. floor, after: as the checkpoint said when the events were read; to: how far they were read.

    again_hours: when to look for more, None: there is no more.
    """

    stream_id: UUID
    floor: int
    after: int
    to: int
    spans: Sequence[Span]
    again_hours: float | None


PASS = """
update runs_checkpoint set compacted_seq = %(to)s, compact_at = clock_timestamp() + %(again)s * interval '1 hour'
where stream_id = %(stream)s and compacted_seq = %(after)s and floor_seq = %(floor)s and seq >= %(to)s
  and not (select r.is_held from runs_attempt a join runs_run r on r.id = a.run_id where a.stream_id = %(stream)s)
returning stream_id"""

JOIN = """
with span as (
  select s.first, s.last, t.data from unnest(%(firsts)s::int8[], %(lasts)s::int8[]) with ordinality s(first, last, k)
  join unnest(string_to_array(%(texts)s::text, E'\\n')) with ordinality t(data, k) using (k)
), last as (
  select octet_length(e.data) as bytes from runs_event e join span s on e.seq = s.last
  where e.stream_id = %(stream)s
), gone as (
  delete from runs_event e using span s
  where e.stream_id = %(stream)s and e.type = 'text.delta' and e.seq >= s.first and e.seq < s.last
  returning octet_length(e.data) as bytes
), joined as (
  update runs_event e set type = 'text.compacted', data = s.data from span s
  where e.stream_id = %(stream)s and e.type = 'text.delta' and e.seq = s.last
  returning octet_length(e.data) as bytes
), counted as (
  select (select count(*) from gone) as gone, (select count(*) from joined) as joined,
    (select sum(bytes) from last) + (select sum(bytes) from gone) - (select sum(bytes) from joined) as saved
)
update runs_checkpoint c set kept_bytes = greatest(0, kept_bytes - saved) from counted where c.stream_id = %(stream)s
returning gone, joined"""


def join_texts(joining: Joining) -> Decision[bool]:
    """Put each span's frame in the place of its deltas, in one transaction.

    Races: another supervisor was here, retention moved the floor, or the run is held: False, nothing was changed.
    """
    where = {"stream": joining.stream_id, "after": joining.after, "floor": joining.floor, "to": joining.to}
    if not (yield Query(PASS, {**where, "again": joining.again_hours})):
        return False
    if joining.spans:
        spans = joining.spans
        rows = yield Query(
            JOIN,
            {
                "stream": joining.stream_id,
                "firsts": [span.first for span in spans],
                "lasts": [span.last for span in spans],
                "texts": "\n".join([_stored(span) for span in spans]),
            },
        )
        # Under the checkpoint's lock nobody else touches them; if it were otherwise, the whole is rolled back.
        assert rows[0]["gone"] == sum(span.last - span.first for span in spans)
        assert rows[0]["joined"] == len(spans)
    return True


def _stored(span: Span) -> str:
    return frames.dump({key: value for key, value in span.frame.items() if key != "seq"})


@dataclass(frozen=True, slots=True)
class Trimming:
    """Events to be deleted: those below `floor`, at most `batch` rows.

    expired_days: only if the attempt ended so long ago and the run is settled; None: by count or bytes, also while the
    run goes on.
    """

    run_id: UUID
    stream_id: UUID
    floor: int
    batch: int
    expired_days: float | None


# The floor comes to lie behind the last deleted row, never inside of a compacted text: that row begins where the one
# before it ends.
TRIM = """
with doomed as (
  select seq from runs_event where stream_id = %(stream)s and seq < %(floor)s order by seq limit %(batch)s
), gone as (
  delete from runs_event e using doomed d where e.stream_id = %(stream)s and e.seq = d.seq
  returning e.seq, octet_length(e.data) as bytes
), cut as (
  select count(*) as n, max(seq) + 1 as floor, sum(bytes) as bytes from gone having count(*) > 0
), marked as (
  update runs_checkpoint c set floor_seq = cut.floor, kept_bytes = greatest(0, kept_bytes - cut.bytes),
    compacted_seq = greatest(compacted_seq, cut.floor - 1)
  from cut where c.stream_id = %(stream)s
), current as (
  update runs_run r set floor_seq = cut.floor from cut where r.id = %(run)s and r.stream_id = %(stream)s
)
select n from cut"""

MAY_TRIM = """
select c.seq from runs_checkpoint c join runs_attempt a on a.stream_id = c.stream_id join runs_run r on r.id = a.run_id
where c.stream_id = %(stream)s and a.run_id = %(run)s and not r.is_held
  and (%(days)s::float8 is null or a.ended_at <= clock_timestamp() - %(days)s * interval '1 day')
for update of c"""


def trim(trimming: Trimming) -> Decision[int]:
    """Delete the oldest events of a stream and raise its floor; returns how many rows were deleted.

    Races: the run was retried, is held, or nothing is below the floor any more: 0. The checkpoint bounds the floor.
    """
    run = yield from lock_run(trimming.run_id)
    is_by_age = trimming.expired_days is not None
    if run is None or (is_by_age and run["status"] not in SETTLED):
        return 0
    where = {"run": trimming.run_id, "stream": trimming.stream_id}
    kept = yield Query(MAY_TRIM, {**where, "days": trimming.expired_days})
    if not kept:
        return 0
    floor = min(trimming.floor, kept[0]["seq"] + 1)
    rows = yield Query(TRIM, {**where, "floor": floor, "batch": trimming.batch})
    n: int = rows[0]["n"] if rows else 0
    if is_by_age and n < trimming.batch:
        yield Query(
            "update runs_attempt set events_expired_at = clock_timestamp() where stream_id = %(stream)s",
            {"stream": trimming.stream_id},
        )
    return n


def hold(*, run_id: UUID, is_held: bool) -> Decision[bool]:
    """Keep everything of a run from being joined or deleted, or let it go again. False: it is so already."""
    rows = yield Query(
        """update runs_run set is_held = %(held)s, version = version + 1 where id = %(run)s and is_held <> %(held)s
           returning id""",
        {"run": run_id, "held": is_held},
        is_alone=True,
    )
    return bool(rows)


def lock_cleared(*, run_id: UUID, days: float) -> Decision[bool]:
    """Lock a run whose folders may go: no attempt or compensation begins meanwhile. False: they are wanted."""
    yield from lock_run(run_id)
    rows = yield Query(
        f"select r.id from runs_run r where r.id = %(run)s and {MAY_CLEAR}", {"run": run_id, "days": days}
    )
    return bool(rows)
