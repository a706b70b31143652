"""Two drivers for decisions: Django's connection for services, a psycopg pool for workers and hubs.

Both run a decision in one transaction and ring its bells after the commit. What is rung may be lost; the
outbox, the poll of the hubs and the supervisor make up for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import psycopg
from django.db import OperationalError, connection, transaction
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from runs.conf import limits
from runs.decisions.core import Decision, Effect, Query, Row
from runs.errors import Busy
from runs.ringing import ring_now

type Ringer = Callable[[Sequence[Effect]], None]
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
    connection.ensure_connection()
    raw = connection.connection
    _make_ready(raw)
    try:
        with connection.wrap_database_errors, transaction.atomic():
            # Not Django's own cursor: that one puts values into the text, so PostgreSQL plans each statement anew.
            with psycopg.Cursor(raw, row_factory=dict_row) as cursor:
                # Django reads jsonb as text on its own cursors; decisions want values.
                cursor.adapters.register_loader("jsonb", psycopg.types.json.JsonbLoader)
                value, effects = _drive(decision, cursor)
            if effects:
                transaction.on_commit(lambda: ring(effects))
            return value
    except OperationalError as error:
        if isinstance(error.__cause__, _BUSY):
            raise Busy from error
        raise


def _make_ready(raw: Any) -> None:
    """Once per connection: let no statement wait longer for a lock than the limit, and prepare what comes again."""
    if raw in _ready:
        return
    raw.prepare_threshold = 1
    raw.execute(f"set lock_timeout = {int(limits().lock_timeout_seconds * 1000)}")
    if not connection.in_atomic_block:  # a rollback would take the setting back
        _ready.add(raw)


def _drive[T](decision: Decision[T], cursor: Any) -> tuple[T, list[Effect]]:
    effects: list[Effect] = []
    rows: list[Row] = []
    try:
        item = next(decision)
        while True:
            if isinstance(item, Query):
                cursor.execute(item.sql, item.params)
                rows = cursor.fetchall() if cursor.description else []
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
        """Run a decision in one transaction; ring after the commit.

        Raises: Busy when a row stayed locked too long (nothing was changed); psycopg.OperationalError when the
        connection broke, in which case the commit may or may not have happened (RULES H10).
        """
        effects: list[Effect] = []
        try:
            async with self.pool.connection() as conn, conn.cursor() as cursor, contextlib.AsyncExitStack() as stack:
                value = await _drive_async(decision, conn, cursor, stack, effects)
        except _BUSY as error:
            raise Busy from error
        if effects:
            self._ring(effects)
        return value

    async def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        """Read rows outside of any decision."""
        async with self.pool.connection() as conn:
            cursor = await conn.execute(sql, params)
            return await cursor.fetchall() if cursor.description else []


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
                rows = await cursor.fetchall() if cursor.description else []
                item = decision.send(rows)
            else:
                effects.append(item)
                item = decision.send([])
    except StopIteration as stop:
        value: T = stop.value
        return value
