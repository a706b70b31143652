"""What the hub reads from the database: run rows, pages of events, snapshots. The only SQL of the package."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import tuple_row

from runs.database import Database
from runs.fold import View, empty_view, fold
from runs.frames import encode_all
from runs.states import ENDED, Status
from streaming.ring import CHUNK_BYTES, Chunk

PAGE_EVENTS = 1500  # more would be read and thrown away: 256 KiB are about a thousand deltas
_ROW = "id as run_id, stream_id, attempt, status, last_seq, floor_seq"
HEADS = f"select {_ROW} from runs_run where id = any(%(runs)s)"

# One statement, so one snapshot: an empty page says "nothing new" only if last_seq is the cursor (RULES H18). The run's
# row comes as seq 0, packed into one text: its columns beside each event cost as much as the events. Fetched rows beat
# string_agg in the database by half (measured). The window keeps a page of huge events small.
PAGE = """
select 0::bigint as seq, concat_ws(' ', stream_id, attempt, status, last_seq, floor_seq) as data
from runs_run where id = %(run)s
union all
(select seq, data from (
  select seq, data, sum(octet_length(data)) over (order by seq rows unbounded preceding) - octet_length(data) as before
  from runs_event where stream_id = %(stream)s and seq > %(after)s order by seq limit %(limit)s
) x where before < %(bytes)s order by seq)"""

SNAPSHOT = f"""
select r.*, e.seq, e.data from (select {_ROW} from runs_run where id = %(run)s) r
left join runs_event e on e.stream_id = r.stream_id order by e.seq"""

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
    """Where a run's current stream stands."""

    run_id: UUID
    stream_id: UUID
    attempt: int
    status: str
    last_seq: int
    floor_seq: int

    @property
    def is_ended(self) -> bool:
        """The attempt has had its terminal event."""
        return Status(self.status) in ENDED


@dataclass(frozen=True, slots=True)
class Page:
    """A row, and the events after a cursor of the stream that was asked for. chunk is None when there are none."""

    row: Row
    first: int
    last: int
    count: int
    chunk: Chunk | None

    def follows(self, after: int) -> bool:
        """Say whether nothing is missing between the cursor and the page, and inside of it."""
        return self.chunk is None or (self.first == after + 1 and self.count == self.last - after)


def row_of(found: Mapping[str, Any]) -> Row:
    """Make a Row of a result's columns."""
    return Row(*(found[name] for name in Row.__slots__))


def page_of(found: Sequence[tuple[int, str]], run_id: UUID, stream_id: UUID) -> Page:
    """Make a Page of what PAGE gave. Raises: UnknownRun."""
    if not found or found[0][0] != 0:
        raise UnknownRun
    stream, attempt, status, last_seq, floor_seq = found[0][1].split(" ")
    row = Row(run_id, UUID(stream), int(attempt), status, int(last_seq), int(floor_seq))
    if len(found) == 1:
        return Page(row, 0, 0, 0, None)
    body = encode_all(found[1:])
    first, last = found[1][0], found[-1][0]
    return Page(row, first, last, len(found) - 1, Chunk(stream_id, last, body))


def page_params(
    run_id: UUID, stream_id: UUID, after: int, *, limit: int = PAGE_EVENTS, max_bytes: int = CHUNK_BYTES
) -> dict[str, Any]:
    """Give the parameters of PAGE; the last event may pass `max_bytes`, so that a page always moves on."""
    return {"run": run_id, "stream": stream_id, "after": after, "limit": limit, "bytes": max_bytes}


async def read_page(db: Database, run_id: UUID, stream_id: UUID, after: int) -> Page:
    """Read what follows a cursor. Raises: UnknownRun, psycopg.Error."""
    async with db.pool.connection() as connection:
        cursor = connection.cursor(binary=True, row_factory=tuple_row)
        await cursor.execute(PAGE, page_params(run_id, stream_id, after))
        return page_of(await cursor.fetchall(), run_id, stream_id)


async def read_heads(db: Database, runs: list[UUID]) -> dict[UUID, Row]:
    """Read where runs stand; a run that was deleted is missing."""
    return {found["run_id"]: row_of(found) for found in await db.fetch(HEADS, {"runs": runs})}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The folded view of a run's current stream, and the row of the same statement; view["seq"] is its cursor."""

    row: Row
    view: View


async def read_snapshot(db: Database, run_id: UUID) -> Snapshot:
    """Fold all stored events of the current stream. Raises: UnknownRun, psycopg.Error."""
    found = await db.fetch(SNAPSHOT, {"run": run_id})
    if not found:
        raise UnknownRun
    row = row_of(found[0])
    # In a thread: a long log takes a tenth of a second, and other followers are being served meanwhile.
    return Snapshot(row, await asyncio.to_thread(_fold_rows, found, row))


def _fold_rows(found: list[dict[str, Any]], row: Row) -> View:
    view = empty_view()
    for one in found:
        if one["seq"] is not None:
            view = fold(view, {"seq": one["seq"], **json.loads(one["data"])})
    return {**view, "seq": row.last_seq}


async def is_attempt(db: Database, run_id: UUID, stream_id: UUID) -> bool:
    """Say whether a stream belongs to one of the run's attempts."""
    return bool(await db.fetch(IS_ATTEMPT, {"run": run_id, "stream": stream_id}))


async def read_versions(db: Database, tenants: list[UUID]) -> dict[UUID, dict[UUID, int]]:
    """Read the versions of each tenant's newest 200 runs."""
    versions: dict[UUID, dict[UUID, int]] = {}
    for found in await db.fetch(CHANGED_RUNS, {"tenants": tenants}):
        versions.setdefault(found["tenant_id"], {})[found["run_id"]] = found["version"]
    return versions
