"""Timers: closed by their time and by nobody else, for a run that waits and for one that is at work."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, claims, timers, waiting
from runs.decisions.dispatch import StepCall
from runs.models import OutboxRow, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, silent
from tests.runs.decisions.test_claims import types_of
from tests.runs.decisions.test_waiting import ask, wait


def a_timer(run: Run, fence: int, path: str = "1") -> Any:
    step = StepCall(path, "timer", "sleep", {}, "d")
    timer = decide(waiting.set_timer(run_id=run.pk, fence=fence, step=step, seconds=60), ring=silent)
    assert isinstance(timer, waiting.TimerSet)
    return timer


def ring_it(*steps: Any) -> None:
    past = (timezone.now() - timedelta(seconds=1)).isoformat()
    Step.objects.filter(pk__in=[s.step_id for s in steps]).update(result={"wake_at": past})


def finish(run: Run, fence: int, step_id: Any) -> Any:
    return decide(timers.finish_timer(run_id=run.pk, fence=fence, step_id=step_id), ring=silent)


def fire(run: Run) -> Any:
    return decide(waiting.fire_timer(run_id=run.pk), ring=silent)


def test_a_holder_closes_its_timer_once_its_time_has_come(owner):
    run = a_run(owner)
    fence = a_claim(run)
    timer = a_timer(run, fence)
    assert finish(run, fence, timer.step_id) is False
    ring_it(timer)
    assert finish(run, fence - 1, timer.step_id) == claims.Lost()
    assert finish(run, fence, timer.step_id) is True
    step = Step.objects.get(pk=timer.step_id)
    assert (step.state, step.finished_at is None) == ("finished", False)
    assert finish(run, fence, timer.step_id) is True  # a repeat says the same and is not said again
    assert types_of(run).count("step.finished") == 1
    assert Run.objects.get(pk=run.pk).wakes == 0


def test_a_step_that_is_no_timer_is_not_closed_as_one(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, effect="read")
    Step.objects.filter(pk=sent.step_id).update(result={"wake_at": "2000-01-01T00:00:00Z"})
    assert finish(run, fence, sent.step_id) is False
    assert Step.objects.get(pk=sent.step_id).state == "open"


def test_firing_closes_the_timers_that_are_due_and_no_other_step(owner):
    run, other = a_run(owner), a_run(owner)
    fence, others = a_claim(run), a_claim(other)
    due, later, elsewhere = a_timer(run, fence, "1"), a_timer(run, fence, "2"), a_timer(other, others)
    question = Step.objects.get(question__pk=ask(run, fence, "3"))
    ring_it(due, elsewhere)
    Step.objects.filter(pk=question.pk).update(result={"wake_at": "2000-01-01T00:00:00Z"})
    wait(run, fence, what="timer", wake_at=timezone.now())
    assert fire(run) is True
    states = dict(Step.objects.values_list("pk", "state"))
    assert states == {
        due.step_id: "finished", later.step_id: "open", elsewhere.step_id: "open", question.pk: "open",
    }  # fmt: skip
    assert Step.objects.get(pk=due.step_id).finished_at is not None
    run.refresh_from_db()
    assert (run.status, run.wakes, run.waiting_for, run.wake_at) == (Status.RUNNING, 1, None, None)
    assert types_of(run)[-2:] == ["step.finished", "run.resumed"]
    assert OutboxRow.objects.filter(run=run).exists()


def test_a_timer_that_was_closed_is_not_closed_again(owner):
    run = a_run(owner)
    fence = a_claim(run)
    timer = a_timer(run, fence)
    ring_it(timer)
    finish(run, fence, timer.step_id)
    wait(run, fence, what="timer", wake_at=timezone.now())
    fire(run)
    assert types_of(run).count("step.finished") == 1


@pytest.mark.parametrize("make", [lambda run, fence: None, lambda run, fence: wait(run, fence, what="input")])
def test_a_run_that_waits_for_no_timer_is_not_woken_by_one(owner, make):
    run = a_run(owner)
    fence = a_claim(run)
    make(run, fence)
    Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() - timedelta(seconds=1))
    assert fire(run) is False
    assert Run.objects.get(pk=run.pk).wakes == 0


def test_a_stopped_run_is_not_woken(owner):
    run = a_run(owner)
    fence = a_claim(run)
    wait(run, fence, what="timer", wake_at=timezone.now())
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    run.refresh_from_db()
    assert (fire(run), run.wake_at, run.waiting_for) == (False, None, None)
