"""Two drivers for decisions: Django's connection for services, a psycopg pool for workers and hubs.

Both run a decision in one transaction and ring its bells after the commit. What is rung may be lost; the
outbox, the poll of the hubs and the supervisor make up for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID
from weakref import WeakSet

import psycopg
from asgiref.sync import sync_to_async
from django.db import InterfaceError, InternalError, OperationalError, close_old_connections, connection, transaction
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from runs.conf import limits
from runs.decisions.children import count_end
from runs.decisions.core import ChildEnded, Decision, Effect, Query, Row
from runs.errors import Busy
from runs.ringing import ring_now

logger = logging.getLogger(__name__)

type Ringer = Callable[[Sequence[Effect]], None]
# What was answered stands, also after a crash of the server (RULES H10). A stronger setting stays as it is.
BE_DURABLE = "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
AWAY_SECONDS, AGAIN_SECONDS = 30.0, 0.1  # as long as the pool waits for a connection, and how often a read is tried
# A server that was demoted, or made to take no writes, is away: the next connection may lead to the one that does.
_DEMOTED = psycopg.errors.ReadOnlySqlTransaction
NO_WRITES = "The database takes no writes."
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_ready: WeakSet[Any] = WeakSet()  # Django's connections that are set up for decisions


def conninfo() -> str:
    """Return libpq's connection string of Django's default database (the test one inside tests)."""
    params = connection.get_connection_params()
    plain = {k: v for k, v in params.items() if isinstance(v, str | int) and k not in ("prepare_threshold",)}
    plain.pop("client_encoding", None)
    options = f"{plain.pop('options', '')} -c lock_timeout={int(limits().lock_timeout_seconds * 1000)}".strip()
    return make_conninfo(**plain, options=options)  # type: ignore[arg-type]  # libpq takes ports as text or number


def decide[T](decision: Decision[T], *, ring: Ringer = ring_now) -> T:
    """Run a decision on Django's connection in one transaction; ring after the commit.

    Raises: Busy when a row stayed locked for longer than the lock timeout, or two decisions waited for each other;
    nothing was changed then. Django's own database errors otherwise, so that a broken connection is noticed.
    """
    raw = _ready_connection()
    try:
        with connection.wrap_database_errors, transaction.atomic():
            with _cursor(raw) as cursor:
                value, effects = _drive(decision, cursor)
            if effects:
                transaction.on_commit(lambda: ring(effects))
            return value
    except OperationalError as error:
        if isinstance(error.__cause__, _BUSY):
            raise Busy from error
        raise
    except InternalError as error:
        if not isinstance(error.__cause__, _DEMOTED):
            raise
        if not connection.in_atomic_block:
            connection.close()
        raise OperationalError(NO_WRITES) from error


def fetch(sql: str, params: Mapping[str, Any]) -> list[Row]:
    """Read rows on Django's connection by a statement that PostgreSQL has planned before, as hot reads need it."""
    raw = _ready_connection()
    with connection.wrap_database_errors, _cursor(raw) as cursor:
        return cursor.execute(sql, params).fetchall()


async def read_in_thread[T](read: Callable[..., T], *args: Any) -> T:
    """Read by Django's models from a worker's loop, again and again while PostgreSQL is being restarted.

    The thread's connection lives as long as the worker, and outside of requests nobody else lets a broken one go.
    `read` must not mind being done again. Raises: OperationalError or InterfaceError when the database is away for
    AWAY_SECONDS.
    """
    give_up_at = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return await sync_to_async(_read_afresh)(read, *args)
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > give_up_at:
                raise
            logger.warning("database.read_again", extra={"error": str(error).strip()[:200]})
        await asyncio.sleep(AGAIN_SECONDS)


def _read_afresh[T](read: Callable[..., T], *args: Any) -> T:
    if not connection.in_atomic_block:
        close_old_connections()
    return read(*args)


def _ready_connection() -> Any:
    """Return psycopg's connection below Django's, set up for decisions."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    raw = connection.connection
    with connection.wrap_database_errors:
        _make_ready(raw)
    return raw


def _cursor(raw: Any) -> psycopg.Cursor[Row]:
    """Open a cursor that is not Django's own: that one puts values into the text, so each statement is planned anew."""
    cursor = psycopg.Cursor(raw, row_factory=dict_row)
    # Django reads jsonb as text on its own cursors; decisions want values.
    cursor.adapters.register_loader("jsonb", psycopg.types.json.JsonbLoader)
    return cursor


def _make_ready(raw: Any) -> None:
    """Once per connection: bound each wait for a lock, have commits last, and prepare what comes again."""
    if raw in _ready:
        return
    raw.prepare_threshold = 1
    raw.execute(f"set lock_timeout = {int(limits().lock_timeout_seconds * 1000)}")
    raw.execute(BE_DURABLE)
    if not connection.in_atomic_block:  # a rollback would take the setting back
        _ready.add(raw)


def _has_rows(cursor: Any) -> bool:
    """Say whether a statement gave rows. `description` would make an object of each column, of 60 for a run's row."""
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _drive[T](decision: Decision[T], cursor: Any) -> tuple[T, list[Effect]]:
    effects: list[Effect] = []
    rows: list[Row] = []
    try:
        item = next(decision)
        while True:
            if isinstance(item, Query):
                cursor.execute(item.sql, item.params)
                rows = cursor.fetchall() if _has_rows(cursor) else []
                item = decision.send(rows)
            else:
                effects.append(item)
                item = decision.send([])
    except StopIteration as stop:
        return stop.value, effects


class Database:
    """The asynchronous side: a small pool of autocommit connections in one event loop."""

    def __init__(self, pool: AsyncConnectionPool[psycopg.AsyncConnection[Row]], ring: Ringer) -> None:
        self.pool = pool
        self._ring = ring

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, *, ring: Ringer, max_size: int = 8, dsn: str | None = None) -> AsyncIterator[Database]:
        """Open the pool for the length of a block.

        Args: ring: called with the effects of each committed decision, must not block; max_size: connections;
        dsn: else that of Django's default database.
        """
        pool: AsyncConnectionPool[psycopg.AsyncConnection[Row]] = AsyncConnectionPool(
            dsn if dsn is not None else conninfo(),
            kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": 1},
            min_size=min(2, max_size),
            max_size=max_size,
            configure=_be_durable,
            open=False,
            check=None,
            reconnect_timeout=3600,
        )
        await pool.open()
        try:
            yield cls(pool, ring)
        finally:
            await pool.close()

    async def decide[T](self, decision: Decision[T]) -> T:
        """Run a decision in one transaction; ring after the commit, and let the parent of a run that ended know.

        Raises: Busy when a row stayed locked too long (nothing was changed); psycopg.OperationalError when the
        connection broke, in which case the commit may or may not have happened (RULES H10).
        """
        effects: list[Effect] = []
        try:
            async with self._purging(), self.pool.connection() as conn:
                try:
                    async with conn.cursor() as cursor, contextlib.AsyncExitStack() as stack:
                        value = await _drive_async(decision, conn, cursor, stack, effects)
                except _DEMOTED as error:
                    await conn.close()
                    raise psycopg.OperationalError(NO_WRITES) from error
        except _BUSY as error:
            raise Busy from error
        if effects:
            self._ring(effects)
        for effect in effects:
            if isinstance(effect, ChildEnded):
                await self._tell_parent(effect.run_id)
        return value

    async def _tell_parent(self, run_id: UUID) -> None:
        """The run's end is committed; if this fails, the supervisor does it from the outbox."""
        try:
            await self.decide(count_end(run_id=run_id))
        except (Busy, psycopg.OperationalError) as error:
            logger.warning("child.end_not_told", extra={"run_id": run_id.hex, "error": repr(error)[:200]})

    @contextlib.asynccontextmanager
    async def _purging(self) -> AsyncIterator[None]:
        """After a broken connection look at those that wait in the pool: a restart of the database broke them all.

        Else each of them would fail a decision of its own.
        """
        try:
            yield
        except _BUSY:
            raise
        except psycopg.OperationalError:
            await self.pool.check()
            raise

    async def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        """Read rows outside of any decision; as `read`."""

        async def use(conn: psycopg.AsyncConnection[Row]) -> list[Row]:
            cursor = await conn.execute(sql, params)
            return await cursor.fetchall() if _has_rows(cursor) else []

        return await self.read(use)

    async def read[T](self, use: Callable[[psycopg.AsyncConnection[Row]], Awaitable[T]]) -> T:
        """Read on a connection outside of any decision, and once more where it breaks.

        So a restart of the database, which breaks all that wait in the pool, ends no stream. `use` must only read.
        Raises: psycopg.Error.
        """
        conn: psycopg.AsyncConnection[Row] | None = None
        try:
            async with self._purging(), self.pool.connection() as conn:
                return await use(conn)
        except psycopg.OperationalError:
            if conn is None or not conn.broken:
                raise
        async with self.pool.connection() as conn:
            return await use(conn)


async def _be_durable(conn: psycopg.AsyncConnection[Row]) -> None:
    await conn.execute(BE_DURABLE)


async def _drive_async[T](
    decision: Decision[T], conn: Any, cursor: Any, stack: contextlib.AsyncExitStack, effects: list[Effect]
) -> T:
    is_open = False
    try:
        item = next(decision)
        while True:
            if isinstance(item, Query):
                if not is_open and not item.is_alone:
                    await stack.enter_async_context(conn.transaction())
                    is_open = True
                await cursor.execute(item.sql, item.params)
                rows = await cursor.fetchall() if _has_rows(cursor) else []
                item = decision.send(rows)
            else:
                effects.append(item)
                item = decision.send([])
    except StopIteration as stop:
        value: T = stop.value
        return value
