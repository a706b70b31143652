"""A sweep waits for nobody: what is due and free comes before any wait, and what fails goes behind (RULES H16)."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from runs.conf import limits
from runs.database import conninfo, decide
from runs.decisions import cancels
from runs.models import Event, Run
from runs.states import CancelReason, Status
from runs.supervisor import sweeps
from runs.supervisor.behind import Behind
from runs.supervisor.sweeps import sweep_once
from tests.builders import a_child, a_claim, a_run, silent

LONG = 60.0  # longer than this test waits for anything
LOCK = "select id from runs_run where id = any(%s) for no key update"
IS_ENDED = "select 1 from runs_run where id = %s and terminal_at is not null"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A sweep that waits for a busy row at all, waits for ever."""
    monkeypatch.setenv("OUTLIVE_BUSY_SECONDS", str(LONG))
    monkeypatch.setenv("OUTLIVE_LOCK_TIMEOUT_SECONDS", str(LONG))
    limits.cache_clear()
    yield
    monkeypatch.undo()
    limits.cache_clear()


class Holder(threading.Thread):
    """Somebody who holds rows until another run has ended, which it sees in the database."""

    def __init__(self, runs: list[Any], until_ended: Any) -> None:
        super().__init__(daemon=True)
        self.runs, self.until_ended, self.has_seen = runs, until_ended, False
        self.holds = threading.Event()
        self.give_up = threading.Event()

    def run(self) -> None:
        with psycopg.connect(conninfo()) as holding, psycopg.connect(conninfo(), autocommit=True) as looking:
            holding.execute(LOCK, [self.runs])
            self.holds.set()
            while not self.has_seen and not self.give_up.wait(0.02):
                self.has_seen = looking.execute(IS_ENDED, [self.until_ended]).fetchone() is not None


def make_due(run: Run, seconds: float, field: str = "deadline_at") -> None:
    Run.objects.filter(pk=run.pk).update(**{field: timezone.now() - timedelta(seconds=seconds)})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("count", [3, sweeps.BATCH + 5])
def test_what_is_free_is_acted_on_while_others_hold_what_was_due_before(owner, patient, count):
    """Actors: a holder of many overdue rows, who lets them go when the free one has ended; a supervisor's sweep."""
    held = [a_run(owner) for _ in range(count)]
    free = a_run(owner)
    for run in held:
        make_due(run, 10)
    make_due(free, 1)
    holder = Holder([run.pk for run in held], free.pk)
    holder.start()
    assert holder.holds.wait(LONG)
    give_up = threading.Timer(LONG / 2, holder.give_up.set)
    give_up.start()
    done = sweep_once()
    give_up.cancel()
    holder.give_up.set()
    holder.join()
    assert holder.has_seen, "the sweep waited for a busy row while a free one was due"
    assert done >= 2, "it never waited for a busy row: one that is written to all the time would never get its turn"
    while sweep_once():
        pass
    assert not Run.objects.exclude(status=Status.CANCELLED).exists()


def break_row(run: Run) -> None:
    """Let each decision on the run fail: its next seq is taken."""
    Event.objects.create(stream_id=run.stream_id, seq=run.last_seq + 1, type="stray", data="{}")


def test_more_failing_rows_than_a_page_do_not_starve_the_next(owner, monkeypatch):
    monkeypatch.setattr(sweeps, "BATCH", 3)
    monkeypatch.setattr(sweeps, "MOST_PAGES", 1)
    broken, good = [a_run(owner) for _ in range(5)], a_run(owner)
    for run in broken:
        break_row(run)
        make_due(run, 10)
    make_due(good, 1)
    behind = Behind()
    sweep_once(behind)
    good.refresh_from_db()
    assert good.status == Status.QUEUED
    sweep_once(behind)
    good.refresh_from_db()
    assert good.status == Status.CANCELLED
    assert len(behind.of("deadline")) == 5


def test_a_page_that_is_stuck_is_passed_over_in_the_same_sweep(owner, monkeypatch):
    monkeypatch.setattr(sweeps, "BATCH", 3)
    broken, good = [a_run(owner) for _ in range(7)], a_run(owner)
    for run in broken:
        break_row(run)
        make_due(run, 10)
    make_due(good, 1)
    sweep_once()
    good.refresh_from_db()
    assert good.status == Status.CANCELLED


def test_what_is_due_first_comes_first(owner, monkeypatch):
    monkeypatch.setattr(sweeps, "BATCH", 2)
    runs = [a_run(owner) for _ in range(3)]
    for run, seconds in zip(runs, (1, 3, 2), strict=True):
        make_due(run, seconds)
    monkeypatch.setattr(sweeps, "MOST_PAGES", 1)
    sweep_once()
    assert [Run.objects.get(pk=run.pk).status for run in runs] == ["queued", "cancelled", "cancelled"]


def test_a_row_that_works_again_is_not_behind_any_more(owner):
    run = a_run(owner)
    break_row(run)
    make_due(run, 1)
    behind = Behind()
    sweep_once(behind)
    assert behind.of("deadline") == [str(run.pk)]
    Event.objects.filter(stream_id=run.stream_id, type="stray").delete()
    sweep_once(behind)
    assert behind.of("deadline") == []


def test_parents_that_wait_for_their_children_fill_no_page(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    a_claim(child)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    make_due(run, 10, "stop_deadline_at")
    deadline = next(sweep for sweep in sweeps.SWEEPS if sweep.name == "stop_deadline")
    assert deadline.read(Behind()) == []
    make_due(child, 1, "stop_deadline_at")
    assert [row["id"] for row in deadline.read(Behind())] == [child.pk]


@pytest.mark.parametrize("sweep", sweeps.SWEEPS, ids=lambda sweep: sweep.name)
def test_each_kind_says_when_a_row_was_due(db, sweep):
    assert sweep.read(Behind()) == []  # its statement has the columns that the order needs
