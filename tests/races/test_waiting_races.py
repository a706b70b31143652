"""Questions and wake-ups: the first of answer, timeout and stop wins, and no wake-up is slept over."""

from typing import Any

import pytest

from runs.database import decide
from runs.decisions import cancels, waiting
from runs.decisions.dispatch import StepCall
from runs.ids import new_id
from runs.models import Question, Run
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_run, silent
from tests.races.invariants import check
from tests.races.two_actors import a_connection, race, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Asking:
    """A run that asks one question, and what may become of it."""

    def __init__(self, owner: Any, *, timeout_seconds: float = 60.0, waits: bool = True) -> None:
        self.run: Run = a_run(owner)
        self.fence = a_claim(self.run)
        self.question = new_id()
        self._by = owner.user.pk
        step = StepCall("1", "ask", "ask", {}, "d" * 64)
        ask = waiting.ask(
            run_id=self.run.pk, fence=self.fence, step=step, question_id=self.question, prompt="?", schema={},
            timeout_seconds=timeout_seconds,
        )  # fmt: skip
        decide(ask, ring=silent)
        if waits:
            decide(self.wait(), ring=silent)

    def wait(self) -> Any:
        return waiting.wait(run_id=self.run.pk, fence=self.fence, wakes=0, waiting_for="input")

    def answer(self, value: Any = True) -> Any:
        return waiting.answer(run_id=self.run.pk, question_id=self.question, value=value, by=self._by, by_name="owner")

    def timeout(self) -> Any:
        return waiting.expire_question(run_id=self.run.pk, question_id=self.question)

    def stop(self) -> Any:
        return cancels.request_cancel(run_id=self.run.pk, reason=CancelReason.USER)

    def overdue(self) -> bool:
        with a_connection(autocommit=True) as watch:
            sql = "select expires_at <= clock_timestamp() as is_so from runs_question where id = %s"
            return bool(watch.execute(sql, [self.question]).fetchone()["is_so"])

    def state(self) -> str:
        return Question.objects.get(pk=self.question).state


def test_an_answer_that_waits_behind_a_stop_is_too_late(owner):
    """Stop and answer: the answer has sent its first statement before the stop's commit."""
    asking = Asking(owner)
    _, late = race(asking.stop(), asking.answer())
    assert (late.won, late.state) == (False, "shut")
    assert check(asking.run.pk).status == Status.CANCELLED


def test_a_stop_that_waits_behind_an_answer_stops_the_woken_run(owner):
    """Answer and stop: the stop has sent its first statement, on a waiting run, before the answer's commit."""
    asking = Asking(owner)
    answered, stopped = race(asking.answer(), asking.stop())
    assert (answered.won, stopped.is_first, asking.state()) == (True, True, "answered")
    assert check(asking.run.pk).status == Status.CANCELLED


def test_of_two_answers_the_first_wins(owner):
    """Two people: the second answer was sent before the first's commit."""
    asking = Asking(owner)
    first, second = race(asking.answer("yes"), asking.answer("no"))
    assert (first.won, second.won, second.value) == (True, False, "yes")
    assert check(asking.run.pk).wakes == 1


def test_a_timeout_that_waits_behind_an_answer_expires_nothing(owner):
    """Answer and timeout: the answer was in time, and commits when the question is overdue already."""
    asking = Asking(owner, timeout_seconds=1.0)
    answer = asking.answer()

    def late_timeout() -> Any:
        wait_until(asking.overdue)  # from another connection: the answer is not committed yet
        return (yield from asking.timeout())

    answered, expired = race(answer, late_timeout())
    assert (answered.won, expired, asking.state()) == (True, False, "answered")
    assert check(asking.run.pk).status == Status.RUNNING


def test_an_answer_that_waits_behind_a_timeout_is_too_late(owner):
    """Timeout and answer: the answer has sent its first statement before the timeout's commit."""
    asking = Asking(owner, timeout_seconds=0.01)
    wait_until(asking.overdue)
    expired, late = race(asking.timeout(), asking.answer())
    assert (expired, late.won, late.state) == (True, False, "expired")
    assert check(asking.run.pk).status == Status.RUNNING


def test_a_run_that_begins_to_wait_while_it_is_answered_is_woken(owner):
    """Answer and wait: the holder looked, found no answer, and has sent its wait before the answer's commit (H11)."""
    asking = Asking(owner, waits=False)
    _, waited = race(asking.answer(), asking.wait())
    assert waited == waiting.NotWaiting("woken")
    assert check(asking.run.pk).status == Status.RUNNING


def test_an_answer_that_waits_behind_the_wait_wakes_the_run(owner):
    """Wait and answer: the answer has sent its first statement, on a running run with a live lease, before the wait's
    commit. It must ask for a worker: the one that it saw has let go."""
    asking = Asking(owner, waits=False)
    _, answered = race(asking.wait(), asking.answer())
    assert answered.won
    assert check(asking.run.pk).status == Status.RUNNING  # and has an outbox row
