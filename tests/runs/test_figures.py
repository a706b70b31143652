"""Each figure over rows that decisions made; each fault that must read 0 is planted once."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Value
from django.db.models.functions import Replace
from django.utils import timezone

from runs.access import Actor
from runs.database import decide
from runs.decisions import cancels, endings, steps
from runs.figures import Figure, read_figures
from runs.models import Event, Operation, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent

pytestmark = pytest.mark.django_db


def figures(actor: Actor | None = None) -> dict[str, Figure]:
    return {f.name: f for f in read_figures(None if actor is None else [actor.tenant.pk])}


def value(name: str, actor: Actor | None = None, **labels: str) -> float | None:
    wanted = tuple(labels.items())
    return next((s.value for s in figures(actor)[name].samples if s.labels == wanted), None)


def ask_to_stop(run: Run) -> None:
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER, by=run.created_by_id), ring=silent)


def set_back(run: Run, seconds: float, *columns: str) -> None:
    """Move times of the run's row into the past."""
    changes = ", ".join(f"{column} = {column} - interval '{seconds} seconds'" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"update runs_run set {changes} where id = %s", [run.pk])


def test_an_empty_installation_has_no_faults_and_nothing_to_average() -> None:
    read = figures()
    assert [name for name, f in read.items() if f.must_be_zero] == ["work_started_after_stop", "partial_output_final"]
    assert all(f.samples[0].value == 0 for f in read.values() if f.must_be_zero)
    assert not read["reconciliation_ratio"].samples
    assert not read["oldest_queued_seconds"].samples


def test_the_time_from_request_to_end(owner: Actor) -> None:
    for seconds in (1.0, 2.0, 9.0):
        run = a_run(owner)
        ask_to_stop(run)
        set_back(run, seconds, "cancel_requested_at")
    assert value("stop_seconds", quantile="0.5") == pytest.approx(2.0, abs=0.2)
    assert value("stop_seconds", quantile="1") == pytest.approx(9.0, abs=0.2)


def test_a_call_in_flight_at_the_stop_is_no_fault_and_one_after_it_is(owner: Actor) -> None:
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    ask_to_stop(run)
    an_outcome(run, fence, sent, "succeeded")
    decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)
    assert value("work_started_after_stop") == 0
    late = timezone.now() + timedelta(seconds=1)
    Operation.objects.filter(run=run).update(dispatched_at=late)
    assert value("work_started_after_stop") == 1
    Operation.objects.filter(run=run).update(dispatched_at=timezone.now() - timedelta(hours=1))
    Step.objects.filter(run=run).update(started_at=late)
    assert value("work_started_after_stop") == 1


@pytest.mark.parametrize("state", ["finished", "abandoned"])
def test_a_text_is_final_only_if_its_call_finished(owner: Actor, state: str) -> None:
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, kind="model")
    decide(steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state=state), ring=silent)
    decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result={}), ring=silent)
    assert value("partial_output_final") == 0
    ends = Event.objects.filter(stream_id=run.stream_id, type="text.end")
    ends.update(data=Replace("data", Value('"final":false'), Value('"final":true')))
    assert '"final":true' in ends.get().data
    assert value("partial_output_final") == (0 if state == "finished" else 1)


def test_a_run_that_nobody_stops_in_time_is_stuck(owner: Actor) -> None:
    run = a_run(owner)
    a_claim(run)
    ask_to_stop(run)
    assert value("stuck_stopping_runs") == 0
    set_back(run, 60, "stop_deadline_at")
    assert value("stuck_stopping_runs") == 1


def test_what_was_sent_is_an_orphan_once_its_lease_is_long_over(owner: Actor) -> None:
    run = a_run(owner)
    a_dispatch(run, a_claim(run, lease_seconds=60.0))
    assert value("orphan_operations") == 0
    set_back(run, 120, "lease_until")
    assert value("orphan_operations") == 1


def test_unknown_and_contradicted_operations_and_the_runs_that_wait_for_a_verdict(owner: Actor) -> None:
    a_quiet = a_run(owner)
    ask_to_stop(a_quiet)
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    set_back(run, 30, "terminal_at")
    assert value("unknown_operations") == 1
    assert value("reconciliation_ratio") == 0.5
    assert value("oldest_reconciliation_seconds") == pytest.approx(30, abs=5)
    assert value("runs", status="needs_reconciliation") == 1
    Operation.objects.filter(run=run).update(contradicted_at=timezone.now())
    assert value("contradicted_operations") == 1


def test_what_waits_and_who_works(owner: Actor) -> None:
    waiting, working = a_run(owner), a_run(owner)
    a_claim(working)
    set_back(waiting, 40, "created_at")
    assert value("runs", status="queued") == value("runs", status="running") == 1
    assert value("oldest_queued_seconds") == pytest.approx(40, abs=5)
    assert value("busy_workers") == 1


def test_figures_of_a_tenant_leave_the_others_out(owner: Actor, outsider: Any) -> None:
    a_run(owner)
    assert value("runs", owner, status="queued") == 1
    assert value("runs", outsider, status="queued") is None
