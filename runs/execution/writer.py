"""One writer per worker process: the deltas of all its runs in one statement, one commit.

The first event goes at once; what comes while a commit is in flight goes with the next: the database sets the
size of the batches. A commit whose answer was lost is sent again with the same batch numbers, and the row keeps the
last number, so nothing is stored twice (RULES H10). A stale fence drops that run's rows alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.rows import dict_row

from runs.database import BE_DURABLE
from runs.decisions.append import MAX_ROWS, MAX_RUNS, Batch, append_many
from runs.execution.one_statement import only_query, result_of
from runs.execution.outlet import Outlet
from runs.failpoints import hit
from runs.frames import bell

logger = logging.getLogger(__name__)

type Connection = AsyncConnection[dict[str, Any]]
type Connect = Callable[[], Awaitable[Connection]]
type Ring = Callable[[bytes, bytes], None]
type Sending = list[tuple[Outlet, Batch]]

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
# All runs of the worker wait while one row is waited for; whoever holds it longer makes its own run wait, alone.
LOCK_TIMEOUT_SECONDS = 0.2
BLOCKED_PAUSE_SECONDS = 0.25


def connect_by(conninfo: str) -> Connect:
    """Return how the writer gets its own connection: one statement is one transaction."""

    async def connect() -> Connection:
        connection = await AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=0, row_factory=dict_row, application_name="outlive writer"
        )
        await connection.execute(f"set lock_timeout = {round(LOCK_TIMEOUT_SECONDS * 1000)}")
        await connection.execute(BE_DURABLE)
        return connection

    return connect


class EventWriter:
    """Stores what outlets are given. `ring` publishes a doorbell after the commit and never blocks."""

    def __init__(self, connect: Connect, ring: Ring) -> None:
        self._connect = connect
        self._ring = ring
        self._connection: Connection | None = None
        self._ready: dict[Outlet, None] = {}  # ordered: the outlet that waits longest comes first
        self._repeats: Sending = []  # batches whose row was locked for too long, each to be sent alone
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write, in the background."""
        self._task = asyncio.get_running_loop().create_task(self._write(), name="event writer")

    async def close(self) -> None:
        """Stop; outlets that are still open lose what was not stored."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for outlet in list(self._ready):
            outlet.close()
        if self._connection is not None:
            await self._connection.close()

    def outlet(self, *, run_id: UUID, stream_id: UUID, fence: int, on_lost: Callable[[], None]) -> Outlet:
        """Open the way for one claim. on_lost is called once, when a commit finds the fence stale."""
        return Outlet(run_id=run_id, stream_id=stream_id, fence=fence, wake=self._note, on_lost=on_lost)

    def _note(self, outlet: Outlet) -> None:
        self._ready[outlet] = None
        self._wake.set()

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while sending := self._take():
                try:
                    await self._store(sending)
                except Exception:  # the edge: a bug here must not silence every run of this worker
                    logger.exception("writer.failed", extra={"runs": len(sending)})
                    for outlet, _ in sending:
                        outlet.lost()

    def _take(self) -> Sending:
        if self._repeats:
            return [self._repeats.pop(0)]
        sending: Sending = []
        rows, runs = 0, set[UUID]()
        for outlet in list(self._ready):
            if rows >= MAX_ROWS or len(sending) >= MAX_RUNS:
                break
            if outlet.run_id in runs:
                continue  # two claims of one run: the statement takes a run once
            del self._ready[outlet]
            if not outlet.may_send:
                continue
            batch = outlet.take(MAX_ROWS - rows)
            rows += len(batch.drafts)
            runs.add(outlet.run_id)
            sending.append((outlet, batch))  # what it has left comes to the end of the line once this is stored
        return sending

    async def _store(self, sending: Sending) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while sending := [(outlet, batch) for outlet, batch in sending if not outlet.is_closed]:
            try:
                first_seqs = await self._append([batch for _, batch in sending])
            except errors.DeadlockDetected:
                continue
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if isinstance(error, errors.LockNotAvailable):
                    await self._step_around(sending)
                    return
                logger.warning("writer.repeats", extra={"error": str(error).strip()[:200], "runs": len(sending)})
                await self._disconnect()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            except psycopg.Error:
                if len(sending) == 1:
                    raise
                await self._store_apart(sending)
                return
            else:
                await hit("after_commit_before_bell")
                self._tell(sending, first_seqs)
                return

    async def _step_around(self, sending: Sending) -> None:
        """A row is locked for long: find out which, and let the others go on."""
        if len(sending) > 1:
            await self._store_apart(sending)
            return
        logger.warning("writer.row_locked", extra={"run_id": str(sending[0][0].run_id)})
        asyncio.get_running_loop().call_later(BLOCKED_PAUSE_SECONDS, self._repeat, sending[0])

    def _repeat(self, blocked: tuple[Outlet, Batch]) -> None:
        self._repeats.append(blocked)
        self._wake.set()

    async def _store_apart(self, sending: Sending) -> None:
        """One run cannot be stored as it is: the others go on without it."""
        for outlet, batch in sending:
            try:
                await self._store([(outlet, batch)])
            except psycopg.Error:
                logger.exception("writer.refused", extra={"run_id": str(outlet.run_id)})
                outlet.lost()

    def _tell(self, sending: Sending, first_seqs: dict[UUID, int]) -> None:
        for outlet, batch in sending:
            first = first_seqs.get(outlet.run_id)
            if first is None:
                outlet.lost()
            elif not outlet.is_closed:
                outlet.stored()
                self._ring(*bell(outlet.stream_id, first, [d.text for d in batch.drafts]))

    async def _append(self, batches: Sequence[Batch]) -> dict[UUID, int]:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connect()
        decision = append_many(batches)
        query = only_query(decision)
        rows = await (await self._connection.execute(query.sql, query.params)).fetchall()
        return result_of(decision, rows)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
