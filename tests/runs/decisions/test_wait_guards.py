"""Each guard of asking, waiting and answering by itself, and what each of them writes."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, waiting
from runs.decisions.dispatch import Refused, StepCall
from runs.ids import new_id
from runs.models import Question, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import types_of
from tests.runs.decisions.test_waiting import answer, ask, wait


def stop(run: Run) -> None:
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)


def expire(run: Run, question: Any) -> Any:
    return decide(waiting.expire_question(run_id=run.pk, question_id=question), ring=silent)


def test_a_stopping_run_neither_asks_nor_sleeps_nor_waits(owner):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)
    asking = waiting.ask(
        run_id=run.pk, fence=fence, step=StepCall("1", "ask", "ask", {}, "d"), question_id=new_id(), prompt="?",
        schema={}, timeout_seconds=60,
    )  # fmt: skip
    sleeping = waiting.set_timer(run_id=run.pk, fence=fence, step=StepCall("1", "timer", "s", {}, "d"), seconds=1)
    assert decide(asking, ring=silent) == Refused("cancel")
    assert decide(sleeping, ring=silent) == Refused("cancel")
    assert wait(run, fence) == waiting.NotWaiting("cancel")
    assert not Step.objects.filter(run=run).exists()


def test_a_lost_holder_cannot_ask(owner):
    run = a_run(owner)
    fence = a_claim(run)
    asking = waiting.ask(
        run_id=run.pk, fence=fence - 1, step=StepCall("1", "ask", "ask", {}, "d"), question_id=new_id(), prompt="?",
        schema={}, timeout_seconds=60,
    )  # fmt: skip
    assert decide(asking, ring=silent) == Refused("lost")


def test_a_run_does_not_wait_beside_an_unknown_operation(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert wait(run, fence) == waiting.NotWaiting("open")


def test_waiting_gives_the_claim_back_and_says_until_when(owner):
    run = a_run(owner)
    fence = a_claim(run)
    wake_at = timezone.now() + timedelta(seconds=60)
    wait(run, fence, what="timer", wake_at=wake_at)
    run.refresh_from_db()
    assert (run.status, run.waiting_for, run.wake_at) == (Status.WAITING, "timer", wake_at)
    assert (run.fence, run.lease_until, run.lease_owner) == (fence + 1, None, None)
    assert types_of(run)[-1] == "run.waiting"


def test_an_answer_is_kept_with_who_gave_it(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    other = ask(run, Run.objects.get(pk=run.pk).fence, "2")
    answer(run, question, {"a": 1}, owner)
    kept = Question.objects.get(pk=question)
    assert (kept.state, kept.value, kept.answered_by_id) == ("answered", {"value": {"a": 1}}, owner.user.pk)
    assert kept.closed_at is not None
    step = Step.objects.get(question=kept)
    assert (step.state, step.result, step.error, step.finished_at is None) == (
        "finished", {"value": {"a": 1}}, None, False,
    )  # fmt: skip
    assert Question.objects.get(pk=other).state == "open"
    assert Run.objects.get(pk=run.pk).status == Status.RUNNING


def test_an_expired_question_fails_its_step_and_is_closed_once(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    assert expire(run, question) is False  # there is time left
    Question.objects.filter(pk=question).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert (expire(run, question), expire(run, question)) == (True, False)
    kept = Question.objects.get(pk=question)
    assert (kept.state, kept.closed_at is None) == ("expired", False)
    step = Step.objects.get(question=kept)
    assert (step.state, step.error["code"]) == ("failed", "input_timeout")
    assert Run.objects.get(pk=run.pk).wakes == 1
    assert types_of(run).count("input.expired") == 1


def test_a_question_expires_in_its_own_run_only(owner):
    run, other = a_run(owner), a_run(owner)
    question = ask(run, a_claim(run))
    a_claim(other)
    Question.objects.filter(pk=question).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire(other, question) is False
    assert expire(run, new_id()) is False


@pytest.mark.parametrize("is_overdue", [False, True])
def test_a_question_that_a_stop_left_open_is_neither_answered_nor_expired(owner, is_overdue):
    """No decision leaves one open; the guard of the run's status stands by itself."""
    run = a_run(owner)
    question = ask(run, a_claim(run))
    stop(run)
    past = timezone.now() + timedelta(seconds=-1 if is_overdue else 60)
    Question.objects.filter(pk=question).update(state="open", closed_at=None, expires_at=past)
    assert answer(run, question, True, owner).won is False
    assert expire(run, question) is False
    assert Question.objects.get(pk=question).state == "open"


def test_an_answer_to_a_step_that_is_closed_leaves_its_result(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    Step.objects.filter(question__pk=question).update(state="abandoned", finished_at=timezone.now())
    answer(run, question, True, owner)
    assert Step.objects.get(run=run).state == "abandoned"
