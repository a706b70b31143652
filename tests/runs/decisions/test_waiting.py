"""Waiting: no wake-up is lost, and answer, timeout and stop race on one row."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.test import TestCase
from django.utils import timezone

from runs.database import decide
from runs.decisions import waiting
from runs.decisions.core import Advance, Bell
from runs.decisions.dispatch import Refused, StepCall
from runs.ids import new_id
from runs.models import OutboxRow, Question, Run, Step
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, silent
from tests.runs.decisions.test_claims import expire, types_of


def ask(run: Run, fence: int, path: str = "1") -> UUID:
    question = new_id()
    asked = decide(
        waiting.ask(
            run_id=run.pk, fence=fence, step=StepCall(path, "ask", "ask", {}, "d" * 64), question_id=question,
            prompt="Send it?", schema={"type": "boolean"}, timeout_seconds=60,
        ),
        ring=silent,
    )  # fmt: skip
    assert isinstance(asked, waiting.Asked)
    return question


def wait(run: Run, fence: int, wakes: int = 0, what: str = "input", wake_at: Any = None) -> Any:
    return decide(waiting.wait(run_id=run.pk, fence=fence, wakes=wakes, waiting_for=what, wake_at=wake_at), ring=silent)


def answer(run: Run, question: UUID, value: Any, by: Any) -> Any:
    return decide(
        waiting.answer(run_id=run.pk, question_id=question, value=value, by=by.user.pk, by_name="x"), ring=silent
    )


def test_an_answer_wakes_a_waiting_run_without_a_claim(owner):
    run = a_run(owner)
    fence = a_claim(run)
    question = ask(run, fence)
    assert wait(run, fence) == waiting.Waiting()
    run.refresh_from_db()
    assert (run.status, run.lease_until, run.fence) == (Status.WAITING, None, fence + 1)
    assert answer(run, question, True, owner).won
    run.refresh_from_db()
    assert (run.status, run.wakes) == (Status.RUNNING, 1)
    assert OutboxRow.objects.filter(run=run).exists()
    assert Step.objects.get(run=run).result == {"value": True}
    assert types_of(run)[-3:] == ["input.answered", "step.finished", "run.resumed"]


def test_an_answer_between_the_look_and_the_wait_is_not_slept_over(owner):
    run = a_run(owner)
    fence = a_claim(run)
    question = ask(run, fence)
    assert answer(run, question, True, owner).won
    assert wait(run, fence, wakes=0) == waiting.NotWaiting("woken")


def test_a_run_does_not_wait_with_a_call_in_flight(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, path="2")
    ask(run, fence)
    assert wait(run, fence) == waiting.NotWaiting("open")


def test_the_first_answer_wins_and_the_second_is_told_which(owner, teammate):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    assert answer(run, question, True, owner).won
    late = answer(run, question, False, teammate)
    assert (late.won, late.state, late.value) == (False, "answered", True)


def test_a_timeout_wins_over_a_later_answer_and_fails_the_step(owner):
    run = a_run(owner)
    fence = a_claim(run)
    question = ask(run, fence)
    wait(run, fence)
    assert decide(waiting.expire_question(run_id=run.pk, question_id=question), ring=silent) is False
    Question.objects.filter(pk=question).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert answer(run, question, True, owner).won is False  # overdue, although no supervisor came yet
    assert decide(waiting.expire_question(run_id=run.pk, question_id=question), ring=silent) is True
    assert answer(run, question, True, owner).state == "expired"
    run.refresh_from_db()
    assert run.status == Status.RUNNING
    assert Step.objects.get(run=run).error["code"] == "input_timeout"


def test_a_lost_holder_can_neither_ask_nor_wait(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert wait(run, fence - 1) == waiting.NotWaiting("lost")
    refused = decide(
        waiting.set_timer(run_id=run.pk, fence=fence - 1, step=StepCall("1", "timer", "sleep", {}, "d"), seconds=1),
        ring=silent,
    )
    assert refused == Refused("lost")


def test_a_timer_wakes_its_run_when_due_and_not_before(owner):
    run = a_run(owner)
    fence = a_claim(run)
    timer = decide(
        waiting.set_timer(run_id=run.pk, fence=fence, step=StepCall("1", "timer", "sleep", {}, "d"), seconds=60),
        ring=silent,
    )
    assert isinstance(timer, waiting.TimerSet)
    wait(run, fence, what="timer", wake_at=timer.wake_at)
    assert decide(waiting.fire_timer(run_id=run.pk), ring=silent) is False
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(wake_at=past)
    Step.objects.filter(run=run).update(result={"wake_at": past.isoformat()})
    assert decide(waiting.fire_timer(run_id=run.pk), ring=silent) is True
    run.refresh_from_db()
    assert (run.status, Step.objects.get(run=run).state) == (Status.RUNNING, "finished")


def test_an_answer_to_the_question_of_another_run_is_no_answer(owner):
    run, other = a_run(owner), a_run(owner)
    question = ask(run, a_claim(run))
    assert answer(other, question, True, owner) is None


def effects_of(decision: Any) -> list[Any]:
    rung: list[Any] = []
    with TestCase.captureOnCommitCallbacks(execute=True):
        decide(decision, ring=rung.extend)
    return rung


def test_an_answer_tells_the_worker_that_holds_the_run_and_asks_for_no_other(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    rung = effects_of(
        waiting.answer(run_id=run.pk, question_id=question, value=True, by=owner.user.pk, by_name="owner")
    )
    assert Bell(b"w:worker-a", run.pk.hex.encode()) in rung
    assert Advance(run.pk) not in rung
    run.refresh_from_db()
    told = {bell.channel: bell.payload for bell in rung if isinstance(bell, Bell)}
    assert told[b"t:" + owner.tenant.pk.hex.encode()] == f"run_{run.pk.hex} {run.version}".encode()
    assert told[b"r:" + run.stream_id.hex.encode()].startswith(b"%d 2 " % (run.last_seq - 1))
    assert not OutboxRow.objects.filter(run=run).exists()


def test_an_answer_after_the_lease_has_passed_asks_for_a_worker(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    expire(run)
    rung = effects_of(
        waiting.answer(run_id=run.pk, question_id=question, value=True, by=owner.user.pk, by_name="owner")
    )
    assert Advance(run.pk) in rung
    assert Bell(b"w:worker-a", run.pk.hex.encode()) not in rung


def test_a_timeout_in_a_running_run_leaves_it_running_and_tells_its_holder(owner):
    run = a_run(owner)
    question = ask(run, a_claim(run))
    Question.objects.filter(pk=question).update(expires_at=timezone.now() - timedelta(seconds=1))
    rung = effects_of(waiting.expire_question(run_id=run.pk, question_id=question))
    run.refresh_from_db()
    assert (run.status, run.wakes, run.lease_owner) == (Status.RUNNING, 1, "worker-a")
    assert "run.resumed" not in types_of(run)
    assert Bell(b"w:worker-a", run.pk.hex.encode()) in rung
