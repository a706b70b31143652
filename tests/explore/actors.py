"""An actor: a script of decisions on a connection of its own, that goes on by one statement at a time.

A script is a generator. It yields what it does next and is sent what came of it:

    a decision            sent its value; parked before each statement and before the commit
    Look(sql, params)     a read outside of any transaction; sent the rows
    Outside(name, act)    a step of the outside world (a request lands, a reply arrives); sent what `act()` returns

An actor whose statement waits for a row is `blocked`, which PostgreSQL says itself (`pg_blocking_pids`), so no order
depends on how fast anything is.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import dict_row

from runs.decisions.core import Decision, Query, Row
from runs.errors import RuleBroken

LOOK_SECONDS = 0.0015  # a statement that takes longer is asked about; it decides nothing
PATIENCE_SECONDS = 60.0  # for a statement that waits for nobody's commit
BLOCKED = "select cardinality(pg_blocking_pids(%(pid)s)) > 0 as is_so"

type Connection = psycopg.Connection[Row]
type Rewrite = Callable[[str, str], str]


class Look(NamedTuple):
    """Read rows outside of any transaction."""

    sql: str
    params: Mapping[str, Any]


class Outside(NamedTuple):
    """Something that happens outside the database."""

    name: str
    act: Callable[[], Any]


type Script = Generator[Decision[Any] | Look | Outside, Any, None]


def as_written(name: str, sql: str) -> str:
    """Leave a statement as its decision wrote it."""
    return sql


class Actor:
    """Who does what, and how far it has got. `letter` names it in a schedule."""

    def __init__(self, letter: str, name: str, connection: Connection, rewrite: Rewrite, *, is_worker: bool) -> None:
        """is_worker: statements that may stand alone are transactions of their own, as on the workers' pool."""
        self.letter, self.name, self.is_worker = letter, name, is_worker
        self.connection, self._cursor = connection, connection.cursor()
        self.rewrite = rewrite
        self.said: list[tuple[str, Any]] = []
        self.has_committed = False
        self._running: Future[list[Row]] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._reset()

    def _reset(self) -> None:
        self._script: Script | None = None
        self._decision: Decision[Any] | None = None
        self._next: Query | Look | Outside | None = None
        self._is_open = self._is_over = False
        self._statements = 0  # of the transaction that is open
        self._value: Any = None
        self.results: list[tuple[str, Any]] = []

    def start(self, script: Script) -> None:
        """Take a script; nothing of it has happened yet."""
        self._reset()
        self._script = script
        self._ask(None)

    @property
    def is_done(self) -> bool:
        """Tell whether the script has ended."""
        return self._script is None

    @property
    def is_blocked(self) -> bool:
        """Tell whether its statement waits for somebody else's commit."""
        return self._running is not None

    @property
    def is_inside(self) -> bool:
        """Tell whether it is inside a transaction: not at its first statement, nor at its commit."""
        return self._is_open and self._statements > 1 and not self._is_over

    @property
    def holds_rows(self) -> bool:
        """Tell whether others may have to wait for it."""
        return self._is_open

    def step(self, watch: Connection, *, may_wait: bool) -> None:
        """Do the next thing, or begin to wait for a row. may_wait: somebody else holds rows."""
        self.has_committed = False
        if self._is_over:
            self.connection.commit()
            self.said.append(("commit", ""))
            self._end_decision()
        elif isinstance(self._next, Outside):
            value = self._next.act()
            self.said.append((self._next.name, value))
            self._ask(value)
        elif not may_wait:
            self._take(self._execute())
        else:
            self._running = self._thread.submit(self._execute)
            self.settle(watch)

    def settle(self, watch: Connection) -> bool:
        """Let the statement end, or see that it waits. Returns whether it has ended."""
        assert self._running is not None
        while not wait([self._running], LOOK_SECONDS).done:
            row = watch.execute(BLOCKED, {"pid": self.connection.info.backend_pid}).fetchone()
            assert row is not None
            if row["is_so"]:
                return False
        running, self._running = self._running, None
        self._take(running.result())
        return True

    def _execute(self) -> list[Row]:
        item = self._next
        assert isinstance(item, Query | Look)
        if isinstance(item, Query) and not (self.is_worker and item.is_alone):
            self._is_open = True
        if self.connection.autocommit == self._is_open:
            self.connection.autocommit = not self._is_open  # psycopg sends BEGIN before the first statement
        name = "look" if self._decision is None else self._decision.__name__
        cursor = self._cursor
        cursor.execute(self.rewrite(name, item.sql), item.params)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []  # description is slow

    def _take(self, rows: list[Row]) -> None:
        item = self._next
        assert item is not None
        self.said.append((item[0], len(rows)))
        self._statements = self._statements + 1 if self._is_open else 0
        if isinstance(item, Look):
            self.has_committed = not item.sql.lstrip().startswith("select")  # time has passed: rows were written
            self._ask(rows)
            return
        self.has_committed = not self._is_open
        try:
            self._advance(rows)
        except RuleBroken as error:
            if self._is_open:
                self.connection.rollback()
            self._decision, self._is_open = None, False
            self.said.append(("rollback", error))
            self._fail(error)

    def _advance(self, rows: list[Row] | None) -> None:
        """Go on in the decision to its next statement or its end."""
        decision = self._decision
        assert decision is not None
        try:
            item = next(decision) if rows is None else decision.send(rows)
            while not isinstance(item, Query):
                item = decision.send([])  # a bell: it is lost
            self._next = item
        except StopIteration as stop:
            self._value, self._next, self._is_over = stop.value, None, self._is_open
            if not self._is_open:
                self._end_decision()

    def _end_decision(self) -> None:
        assert self._decision is not None
        self.has_committed = True
        self.said.append((f"= {self._decision.__name__}", self._value))
        self.results.append((self._decision.__name__, self._value))
        self._decision, self._is_open, self._is_over = None, False, False
        self._ask(self._value)

    def _ask(self, value: Any) -> None:
        """Let the script say what it does next."""
        assert self._script is not None
        try:
            item = self._script.send(value)
        except StopIteration:
            self._script = self._next = None
            return
        self._begin(item)

    def _fail(self, error: Exception) -> None:
        assert self._script is not None
        try:
            item = self._script.throw(error)
        except StopIteration:
            self._script = self._next = None
            return
        self._begin(item)

    def _begin(self, item: Any) -> None:
        if isinstance(item, Look | Outside):
            self._next = item
            return
        self._decision = item
        self._advance(None)

    def hush(self) -> list[tuple[str, Any]]:
        """Return what it did since the last time: what, and what came of it."""
        said, self.said = self.said, []
        return said

    def close(self) -> None:
        """End its thread and its connection."""
        self._thread.shutdown()
        self.connection.close()

    def abandon(self) -> None:
        """Leave everything where it is and free its rows: the order has failed."""
        if self._running is not None:
            self.connection.cancel()
            wait([self._running])
            self._running = None
        for generator in (self._decision, self._script):
            if generator is not None:
                generator.close()
        self._reset()
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.connection.rollback()


def first_to_end(actors: Sequence[Actor]) -> list[Actor]:
    """Wait until the statement of one of these has ended, and return whose it is: one, or several at once."""
    running = {actor._running: actor for actor in actors}
    ended = wait([one for one in running if one is not None], PATIENCE_SECONDS, FIRST_COMPLETED).done
    assert ended, "all wait for each other"
    return [running[one] for one in ended]


def connect(dsn: str) -> Connection:
    """Open a connection that waits for rows as long as it takes; a deadlock is seen at once."""
    connection = psycopg.connect(dsn, autocommit=True, row_factory=dict_row, prepare_threshold=1)
    connection.execute("set lock_timeout = 0")
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute("set deadlock_timeout = '100ms'")
    return connection
