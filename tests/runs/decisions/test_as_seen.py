"""Decisions that read without a lock: whatever commits between their read and their write wins, or is met again."""

from collections.abc import Callable
from typing import Any

import pytest

from runs.database import decide
from runs.decisions import cancels, claims, endings, steps
from runs.decisions.core import Decision, Query
from runs.models import Step
from runs.states import TERMINAL_EVENT, CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, silent
from tests.runs.decisions.test_claims import types_of


def interrupted(decision: Decision[Any], after: int, act: Callable[[], object]) -> Decision[Any]:
    """Do `act` right after the decision's n-th statement, as if another transaction had committed there."""
    seen = 0
    try:
        item = next(decision)
        while True:
            rows = yield item
            if isinstance(item, Query):
                seen += 1
                if seen == after:
                    act()
            item = decision.send(rows)
    except StopIteration as stop:
        assert seen >= after
        return stop.value


def stop(run):
    return lambda: decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)


def test_a_stop_between_the_look_and_the_end_keeps_the_run_from_completing(owner):
    run = a_run(owner)
    fence = a_claim(run)
    finish = endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result="done")
    assert decide(interrupted(finish, 1, stop(run)), ring=silent) == endings.NotEnded("cancel")
    run.refresh_from_db()
    assert (run.status, run.has_result) == (Status.CANCEL_REQUESTED, False)


def test_a_call_that_begins_between_the_look_and_the_end_is_not_left_behind(owner):
    run = a_run(owner)
    fence = a_claim(run)
    finish = endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED)
    begin = interrupted(finish, 1, lambda: a_dispatch(run, fence, kind="model"))
    assert decide(begin, ring=silent) == endings.NotEnded("open")


def test_a_stop_between_the_look_and_a_steps_end_is_met_again_and_the_step_ends_once(owner):
    run = a_run(owner)
    fence = a_claim(run)
    model = a_dispatch(run, fence, kind="model")
    finish = steps.finish_step(run_id=run.pk, fence=fence, step_id=model.step_id, state="finished", result="text")
    assert decide(interrupted(finish, 1, stop(run)), ring=silent) == steps.Done(None)
    run.refresh_from_db()
    assert (run.status, run.open_ops) == (Status.CANCEL_REQUESTED, 0)
    assert Step.objects.get(pk=model.step_id).state == "finished"
    assert types_of(run).count("step.finished") == 1


def test_a_claim_that_is_lost_between_the_look_and_a_steps_end_writes_nothing(owner):
    run = a_run(owner)
    fence = a_claim(run)
    model = a_dispatch(run, fence, kind="model")

    def lose() -> None:
        decide(claims.take_from_dead(run_id=run.pk, worker="worker-a"), ring=silent)

    finish = steps.finish_step(run_id=run.pk, fence=fence, step_id=model.step_id, state="finished", result="text")
    assert decide(interrupted(finish, 1, lose), ring=silent) == steps.Lost()
    assert Step.objects.get(pk=model.step_id).state == "open"


@pytest.mark.parametrize("after", [1, 2])
def test_an_end_between_the_look_and_the_end_of_a_stop_is_not_doubled(owner, after):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)()

    def end() -> None:
        assert isinstance(decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent), endings.Ended)

    late = interrupted(endings.end_cancel(run_id=run.pk, fence=fence), after, end)
    assert decide(late, ring=silent) == endings.NotEnded("ended")
    assert len([kind for kind in types_of(run) if kind in TERMINAL_EVENT.values()]) == 1
