"""The two drivers of decisions: what was committed by them was committed for good."""

from collections.abc import Callable

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection
from psycopg.conninfo import make_conninfo

from runs import database
from runs.database import Database, conninfo, decide, fetch, read_in_thread
from runs.decisions.core import Decision, Query
from runs.execution.writer import connect_by
from tests.builders import silent
from tests.config.test_postgresql import end_the_session

pytestmark = pytest.mark.django_db(transaction=True)


def ask_how() -> Decision[str]:
    rows = yield Query("select current_setting('synchronous_commit') as how", {})
    return str(rows[0]["how"])


def of_a_server_that(setting: str) -> str:
    return make_conninfo(conninfo(), options=f"-c lock_timeout=2000 -c synchronous_commit={setting}")


@pytest.mark.parametrize(
    ("setting", "how"), [("off", "on"), ("on", "on"), ("local", "local"), ("remote_apply", "remote_apply")]
)
async def test_a_server_that_answers_before_it_has_stored_stores_our_decisions_first(setting: str, how: str) -> None:
    async with Database.open(ring=silent, dsn=of_a_server_that(setting)) as opened:
        assert await opened.decide(ask_how()) == how
    writing = await connect_by(of_a_server_that(setting))()
    try:
        cursor = await writing.execute("select current_setting('synchronous_commit') as how")
        assert await cursor.fetchall() == [{"how": how}]
    finally:
        await writing.close()


@pytest.mark.parametrize(("setting", "how"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_the_same_holds_for_djangos_connection(setting: str, how: str) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"set synchronous_commit = {setting}")
        database._ready.discard(connection.connection)  # as one that was opened just now
        assert decide(ask_how(), ring=silent) == how
    finally:
        connection.close()


def write() -> Decision[None]:
    yield Query("update runs_run set title = 'x' where false", {})


async def test_a_server_that_takes_no_writes_is_away_for_a_worker_and_its_connections_are_given_up() -> None:
    """As after a failover: an agent saw an error of its own, and the same connections were used for ever."""
    dsn = make_conninfo(conninfo(), options="-c default_transaction_read_only=on")
    async with Database.open(ring=silent, dsn=dsn, max_size=1) as opened:
        async with opened.pool.connection() as before:
            pass
        with pytest.raises(psycopg.OperationalError):
            await opened.decide(write())
        assert before.closed


def test_a_server_that_takes_no_writes_is_away_for_a_request() -> None:
    """It was a 500; now it is the 503 of a database that is away, and the next request connects anew."""
    with connection.cursor() as cursor:
        cursor.execute("set default_transaction_read_only = on")
    with pytest.raises(OperationalError):
        decide(write(), ring=silent)
    decide(write(), ring=silent)


def test_a_connection_that_breaks_before_its_first_decision_breaks_as_any_other() -> None:
    """As Django's error, by which a supervisor knows that the database is away, and a request is told so."""
    end_the_session()
    database._ready.discard(connection.connection)  # as one that was opened just now
    for use in (lambda: decide(ask_how(), ring=silent), lambda: fetch("select 1", {})):
        with pytest.raises(OperationalError):
            use()
        assert connection.errors_occurred  # so that it is replaced
        connection.errors_occurred = False
    connection.close()


def ended_once() -> Callable[[], int]:
    """Make a read whose session the server ends the first time, as a restart does."""
    reads: list[int] = []

    def read() -> int:
        reads.append(1)
        if len(reads) == 1:
            end_the_session()
        return int(fetch("select 1 as one", {})[0]["one"]) + len(reads)

    return read


async def test_what_a_worker_reads_in_a_thread_survives_a_restart_of_the_database() -> None:
    assert await read_in_thread(ended_once()) == 3


def test_where_the_database_stays_away_the_reader_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        end_the_session()
        fetch("select 1", {})

    monkeypatch.setattr(database, "AWAY_SECONDS", 0.3)
    with pytest.raises(OperationalError):
        async_to_sync(read_in_thread)(read)
    connection.close()
