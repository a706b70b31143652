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
from runs.decisions import append, claims
from runs.decisions.core import Decision, Fact, write
from runs.models import Run
from tests.builders import a_claim, a_run, silent

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


def decide_apart[T](decision: Decision[T]) -> T:
    """Decide on a connection of this thread, and close it."""
    try:
        return decide(decision, ring=silent)
    finally:
        connection.close()
