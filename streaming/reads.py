"""What the hub reads from the database: run rows, pages of events, snapshots. The only SQL of the package."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from runs.compaction import MAX_SPAN
from runs.database import Database
from runs.fold import View
from runs.fold_parts import first_seq
from runs.frames import decode, encode_all
from runs.snapshots import SNAPSHOT, found_of, snapshot_params
from runs.states import ENDED, Status
from streaming.ring import CHUNK_BYTES, Chunk

# A thousand deltas are about 330 KB, so that they fit in a page. Not less than one compacted frame may stand for,
# whose row is at its last seq: else a page that begins before it would not hold it, and be empty.
PAGE_EVENTS = MAX_SPAN
MOST_SEQ = 2**63 - 1  # of a bigint
_COMPACTED = b'"type":"text.compacted"'
_ROW = "id as run_id, stream_id, attempt, status, last_seq, floor_seq"
HEADS = f"select {_ROW}, version from runs_run where id = any(%(runs)s)"

# One statement, so one snapshot: an empty page says "nothing new" only if last_seq is the cursor (RULES H18). The run's
# row comes as seq 0, packed into one text: its columns beside each event cost as much as the events. Fetched rows beat
# string_agg in the database by half (measured). The upper bound keeps the planner from sorting all that follows for
# each page (at the start of 10,000 events: 7.5 ms instead of 1.6). Where all that is asked for fits in a page, it is
# read as it is; else a window finds where to cut, which costs as much again.
PAGE = """
with asked as materialized (
  select coalesce(sum(octet_length(data)), 0) as bytes from runs_event
  where stream_id = %(stream)s and seq > %(after)s and seq <= %(to)s)
select 0::bigint as seq, concat_ws(' ', stream_id, attempt, status, last_seq, floor_seq) as data
from runs_run where id = %(run)s
union all
(select seq, data from runs_event
 where stream_id = %(stream)s and seq > %(after)s and seq <= %(to)s and (select bytes from asked) <= %(bytes)s
 order by seq limit %(limit)s)
union all
(select seq, data from (
  select seq, data, octet_length(data) as size,
    sum(octet_length(data)) over (order by seq rows unbounded preceding) as upto
  from runs_event
  where stream_id = %(stream)s and seq > %(after)s and seq <= %(to)s and (select bytes from asked) > %(bytes)s
  order by seq limit %(limit)s
) x where upto <= %(bytes)s or upto = size order by seq)"""

IS_ATTEMPT = "select 1 from runs_attempt where stream_id = %(stream)s and run_id = %(run)s"
CHANGED_RUNS = """
select id as run_id, tenant_id, version from (
  select id, tenant_id, version, row_number() over (partition by tenant_id order by created_at desc) as place
  from runs_run where tenant_id = any(%(tenants)s)
) newest where place <= 200"""


class UnknownRun(Exception):
    """The run's row does not exist (any more)."""


@dataclass(frozen=True, slots=True)
class Row:
    """Where a run's current stream stands. version: of the run's row, where HEADS read it."""

    run_id: UUID
    stream_id: UUID
    attempt: int
    status: str
    last_seq: int
    floor_seq: int
    version: int = 0

    @property
    def is_ended(self) -> bool:
        """The attempt has had its terminal event."""
        return Status(self.status) in ENDED


@dataclass(frozen=True, slots=True)
class Page:
    """A row, and the events after a cursor of the stream that was asked for. chunk is None when there are none.

    first: the first seq that the first frame stands for; span: how many seqs all its frames stand for.
    """

    row: Row
    stream_id: UUID
    first: int
    last: int
    span: int
    chunk: Chunk | None

    def follows(self, after: int) -> bool:
        """Say whether nothing is missing between the cursor and the page, and inside of it (RULES H18).

        An empty page says that nothing is missing only if the head, of the same statement, is not above the cursor;
        nothing is known of the end of a stream that is not the run's current one any more.
        """
        if self.chunk is None:
            return self.row.stream_id != self.stream_id or self.row.last_seq <= after
        return self.first == after + 1 and self.span == self.last - after


def row_of(found: Mapping[str, Any]) -> Row:
    """Make a Row of a result's columns."""
    return Row(*(found[name] for name in Row.__slots__))


def row_of_text(run_id: UUID, text: str) -> Row:
    """Make a Row of the columns as PAGE and SNAPSHOT pack them."""
    stream, attempt, status, last_seq, floor_seq = text.split(" ")
    return Row(run_id, UUID(stream), int(attempt), status, int(last_seq), int(floor_seq))


def page_of(found: Sequence[tuple[int, str]], run_id: UUID, stream_id: UUID) -> Page:
    """Make a Page of what PAGE gave. Raises: UnknownRun."""
    if not found or found[0][0] != 0:
        raise UnknownRun
    row = row_of_text(run_id, found[0][1])
    if len(found) == 1:
        return Page(row, stream_id, 0, 0, 0, None)
    body = encode_all(found[1:])
    first, last = found[1][0], found[-1][0]
    span = len(found) - 1
    if _COMPACTED in body:  # rare, so only then is each frame looked at
        firsts = [first_seq(decode(seq, data)) or seq for seq, data in found[1:]]
        first, span = firsts[0], sum(seq - begin + 1 for begin, (seq, _) in zip(firsts, found[1:], strict=True))
    return Page(row, stream_id, first, last, span, Chunk(stream_id, last, body))


def page_params(
    run_id: UUID, stream_id: UUID, after: int, *, limit: int = PAGE_EVENTS, max_bytes: int = CHUNK_BYTES
) -> dict[str, Any]:
    """Give the parameters of PAGE; an event that alone is larger than `max_bytes` is a page of its own."""
    to = min(after + max(limit, PAGE_EVENTS), MOST_SEQ)
    return {"run": run_id, "stream": stream_id, "after": after, "to": to, "limit": limit, "bytes": max_bytes}


async def read_page(db: Database, run_id: UUID, stream_id: UUID, after: int, *, max_bytes: int = CHUNK_BYTES) -> Page:
    """Read what follows a cursor. Raises: UnknownRun, psycopg.Error."""
    found = await _read_tuples(db, PAGE, page_params(run_id, stream_id, after, max_bytes=max_bytes))
    return page_of(found, run_id, stream_id)


async def _read_tuples(db: Database, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    async def use(connection: psycopg.AsyncConnection[Any]) -> list[tuple[Any, ...]]:
        cursor = connection.cursor(binary=True, row_factory=tuple_row)
        await cursor.execute(sql, params)
        return await cursor.fetchall()

    return await db.read(use)


async def read_heads(db: Database, runs: list[UUID]) -> dict[UUID, Row]:
    """Read where runs stand; a run that was deleted is missing."""
    return {found["run_id"]: row_of(found) for found in await db.fetch(HEADS, {"runs": runs})}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The folded view of a run's current stream, and the row of the same statement; view["seq"] is its cursor."""

    row: Row
    view: View


async def read_snapshot(db: Database, run_id: UUID) -> Snapshot:
    """Give the view of the current stream as it stands. Raises: UnknownRun, psycopg.Error."""
    found = found_of(await _read_tuples(db, SNAPSHOT, snapshot_params(run_id)))
    if found is None:
        raise UnknownRun
    row = row_of_text(run_id, found.row)
    # In a thread: a long log without a checkpoint takes a second, and other followers are being served meanwhile.
    view = await asyncio.to_thread(found.fold)
    return Snapshot(row, {**view, "seq": row.last_seq})


async def is_attempt(db: Database, run_id: UUID, stream_id: UUID) -> bool:
    """Say whether a stream belongs to one of the run's attempts."""
    return bool(await db.fetch(IS_ATTEMPT, {"run": run_id, "stream": stream_id}))


async def read_versions(db: Database, tenants: list[UUID]) -> dict[UUID, dict[UUID, int]]:
    """Read the versions of each tenant's newest 200 runs."""
    versions: dict[UUID, dict[UUID, int]] = {}
    for found in await db.fetch(CHANGED_RUNS, {"tenants": tenants}):
        versions.setdefault(found["tenant_id"], {})[found["run_id"]] = found["version"]
    return versions
