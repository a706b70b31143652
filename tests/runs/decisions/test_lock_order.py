"""What takes several runs at once locks them by id, whatever order it was asked in: else two would wait for each other.

No order depends on how fast anything is: the statement is seen to wait for the lowest run, and by then it must not hold
any that comes after it.
"""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from runs.database import conninfo, decide
from runs.decisions import append, claims, viewers
from runs.decisions.core import Decision, Fact, write
from runs.ids import new_id
from runs.models import Run
from tests.builders import a_claim, a_run, a_shell, silent

pytestmark = pytest.mark.django_db(transaction=True)
LOCK = "select id from runs_run where id = %s for no key update"
FREE = LOCK + " nowait"
WAITERS = "select count(*) from pg_stat_activity where %s = any(pg_blocking_pids(pid))"


def renewal(held: dict[Any, int]) -> Decision[Any]:
    return claims.renew(worker="worker-a", held=held, lease_seconds=60.0)


def appending(held: dict[Any, int]) -> Decision[Any]:
    batches = []
    for run_id, fence in held.items():
        run = Run.objects.values("id", "attempt", "stream_id").get(pk=run_id) | {"now": timezone.now()}
        batches.append(append.Batch(run_id, fence, 1, write(run, [Fact("usage", {"input_tokens": 1})])))
    return append.append_many(batches)


@pytest.mark.parametrize("make", [renewal, appending], ids=["renew", "append"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_runs_are_locked_by_id(owner: Any, make: Callable[[dict[Any, int]], Decision[Any]], is_reversed: bool) -> None:
    """Actors: somebody who holds the run with the lowest id; a batch of that run and others; a third who looks."""
    runs = sorted((a_run(owner) for _ in range(4)), key=lambda run: run.pk, reverse=is_reversed)
    held = {run.pk: a_claim(run) for run in runs}
    low, *others = sorted(held)
    decision = make(held)
    answers: list[Any] = []
    with psycopg.connect(conninfo()) as holder, psycopg.connect(conninfo(), autocommit=True) as looker:
        holder.execute(LOCK, [low])
        batch = threading.Thread(target=lambda: answers.append(decide_apart(decision)), daemon=True)
        batch.start()
        while looker.execute(WAITERS, [holder.info.backend_pid]).fetchone() == (0,):
            assert batch.is_alive(), "it did not wait for the run that is held"
        for run_id in others:  # raises LockNotAvailable where the batch holds it already
            with looker.transaction():
                looker.execute(FREE, [run_id])
        holder.rollback()
        batch.join(30)
    assert set(answers[0]) == set(held)


def test_a_viewer_that_leaves_takes_the_run_before_its_own_row(owner: Any) -> None:
    """Actors: who holds the run, and will take its viewers (as the end of its time does); a viewer that leaves."""
    run, viewer_id = a_shell(owner).run, new_id()
    assert decide(viewers.come(viewer_id=viewer_id, run_id=run.pk, user_id=owner.user.pk), ring=silent)
    answers: list[bool] = []
    with psycopg.connect(conninfo()) as holder, psycopg.connect(conninfo(), autocommit=True) as looker:
        holder.execute(LOCK, [run.pk])
        leave = viewers.leave(viewer_id=viewer_id, run_id=run.pk)
        leaving = threading.Thread(target=lambda: answers.append(decide_apart(leave)), daemon=True)
        leaving.start()
        while looker.execute(WAITERS, [holder.info.backend_pid]).fetchone() == (0,):
            assert leaving.is_alive(), "it did not wait for the run that is held"
        with looker.transaction():  # raises LockNotAvailable where it has its own row already
            looker.execute("select id from runs_shellviewer where id = %s for update nowait", [viewer_id])
        holder.rollback()
        leaving.join(30)
    assert answers == [True]


def decide_apart[T](decision: Decision[T]) -> T:
    """Decide on a connection of this thread, and close it."""
    try:
        return decide(decision, ring=silent)
    finally:
        connection.close()
