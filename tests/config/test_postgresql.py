"""Django's connection is looked at before it is used again: one that the server has ended is replaced."""

import pytest
from django.db import close_old_connections, connection, connections
from django.db.backends.postgresql import base

from runs.database import fetch
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
PID = "select pg_backend_pid() as pid"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What Django's own check, a statement, has said."""
    answers: list[bool] = []
    check = base.DatabaseWrapper.is_usable

    def ask(wrapper: base.DatabaseWrapper) -> bool:
        answers.append(check(wrapper))
        return answers[-1]

    monkeypatch.setattr(base.DatabaseWrapper, "is_usable", ask)
    return answers


def end_the_session() -> int:
    """End our own session from another one, and wait until it has reached us."""
    pid: int = fetch(PID, {})[0]["pid"]
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s)", [pid])
    finally:
        other.close()
    wait_until(lambda: not connection.is_usable(), what="the end of the session")
    return pid


def test_an_idle_connection_that_stands_is_not_asked(asked: list[bool]) -> None:
    pid = fetch(PID, {})[0]["pid"]
    close_old_connections()
    assert fetch(PID, {})[0]["pid"] == pid
    assert asked == []


def test_a_connection_that_the_server_has_ended_is_replaced(asked: list[bool]) -> None:
    ended = end_the_session()
    close_old_connections()
    assert fetch(PID, {})[0]["pid"] != ended
    assert asked[-1] is False


def test_after_an_error_the_server_is_asked(asked: list[bool]) -> None:
    pid = fetch(PID, {})[0]["pid"]
    connection.errors_occurred = True
    close_old_connections()
    assert fetch(PID, {})[0]["pid"] == pid
    assert asked == [True]
