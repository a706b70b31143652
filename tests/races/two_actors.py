"""Two decisions at once on real PostgreSQL: the first holds its transaction, the second is seen to wait for it.

No test sleeps: the second actor is a thread with a connection of its own, and `pg_blocking_pids` says when it has
sent the statement that waits. So what it judged before its wait is what the row said before the first committed.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row

from runs.database import conninfo
from runs.decisions.core import Decision, Query

PATIENCE_SECONDS = 60.0


def drive[T](connection: psycopg.Connection[Any], decision: Decision[T]) -> T:
    """Run a decision to its end; the caller commits."""
    rows: list[Any] = []
    try:
        item = next(decision)
        while True:
            if isinstance(item, Query):
                cursor = connection.execute(item.sql, item.params)
                rows = cursor.fetchall() if cursor.description else []
                item = decision.send(rows)
            else:
                item = decision.send([])
    except StopIteration as stop:
        value: T = stop.value
        return value


@contextmanager
def a_connection(**options: Any) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection of its own, outside of any test transaction."""
    with psycopg.connect(conninfo(), row_factory=dict_row, **options) as connection:
        yield connection


def wait_until(fact: Callable[[], Any]) -> Any:
    """Ask again until the fact is true, and return it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := fact()):
        assert time.monotonic() < end, "it did not become true"
    return found


def race[A, B](first: Decision[A], second: Decision[B]) -> tuple[A, B]:
    """Let `first` do everything but its commit, let `second` run into its lock, then let `first` commit."""
    with a_connection() as one, a_connection() as two, a_connection(autocommit=True) as watch:
        won = drive(one, first)
        with ThreadPoolExecutor(1) as pool:
            rival: Future[B] = pool.submit(_whole, two, second)
            waits = "select %s = any(pg_blocking_pids(%s)) as is_so"
            pids = [one.info.backend_pid, two.info.backend_pid]
            wait_until(lambda: rival.done() or watch.execute(waits, pids).fetchone()["is_so"])
            assert not rival.done(), "the second never met the first: this is no race"
            one.commit()
            return won, rival.result(PATIENCE_SECONDS)


def _whole[T](connection: psycopg.Connection[Any], decision: Decision[T]) -> T:
    value = drive(connection, decision)
    connection.commit()
    return value
