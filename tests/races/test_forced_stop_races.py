"""A forced stop against everything that may happen at the same moment: what it judges is what the other left."""

from typing import Any

import pytest

from runs.access import Actor
from runs.decisions import claims, dispatch, endings, forcing, steps
from runs.models import Operation, Run
from runs.states import Status
from tests.builders import a_child, a_claim, a_dispatch, a_run
from tests.races.invariants import check
from tests.races.test_stop_races import a_call, a_receipt, a_stop
from tests.races.two_actors import race

pytestmark = pytest.mark.django_db(transaction=True)


def a_force(run: Run) -> Any:
    return forcing.force_stop(run_id=run.pk, by=run.created_by_id)


def a_finish(run: Run, fence: int) -> Any:
    return endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result="r")


@pytest.mark.parametrize("way", ["write", "read", "fresh read"])
def test_behind_a_dispatch_it_judges_that_call(owner: Actor, way: str) -> None:
    """Dispatch and force: the force has sent its first statement while nothing was open."""
    run = a_run(owner)
    sent, answer = race(a_call(run, a_claim(run), way), a_force(run))
    assert isinstance(sent, dispatch.Dispatched)
    outcome, status = ("unknown", "needs_reconciliation") if way == "write" else ("abandoned", "cancelled")
    assert [e["outcome"] for e in answer.effects] == [outcome]
    assert check(run.pk).status == status


@pytest.mark.parametrize("way", ["write", "read", "fresh read"])
def test_a_dispatch_behind_it_is_refused(owner: Actor, way: str) -> None:
    """Force and dispatch, whose first statement was sent while the run went on."""
    run = a_run(owner)
    _, refused = race(a_force(run), a_call(run, a_claim(run), way))
    assert isinstance(refused, dispatch.Refused)
    assert check(run.pk).status == Status.CANCELLED


@pytest.mark.parametrize("receipt_is_first", [True, False])
def test_a_receipt_counts_or_is_left_as_evidence(owner: Actor, receipt_is_first: bool) -> None:
    """The holder's receipt and a force: either commits while the other waits."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    if receipt_is_first:
        done, answer = race(a_receipt(run, fence, sent), a_force(run))
        assert (done, answer.has_ended_it) == (steps.Done("succeeded"), True)
    else:
        answer, done = race(a_force(run), a_receipt(run, fence, sent))
        assert (done, answer.has_ended_it) == (claims.Lost(), True)
    assert check(run.pk).status == (Status.CANCELLED if receipt_is_first else Status.NEEDS_RECONCILIATION)
    assert Operation.objects.get(run=run).state == ("succeeded" if receipt_is_first else "unknown")


def test_behind_a_finish_it_is_too_late(owner: Actor) -> None:
    """Finish and force, which has sent its first statement while the run went on."""
    run = a_run(owner)
    _, answer = race(a_finish(run, a_claim(run)), a_force(run))
    assert (answer.has_ended_it, answer.is_first, answer.too_late) == (False, False, True)
    assert check(run.pk).status == Status.COMPLETED


def test_a_finish_behind_it_does_not_complete(owner: Actor) -> None:
    """Force and finish, whose one statement was sent while the run went on."""
    run = a_run(owner)
    _, late = race(a_force(run), a_finish(run, a_claim(run)))
    assert late == endings.NotEnded("ended")
    assert check(run.pk).has_result is False


def test_behind_the_first_claim_it_ends_that_claim(owner: Actor) -> None:
    """The first claim and a force, which has read the run as queued."""
    run = a_run(owner)
    claimed, answer = race(claims.claim(run_id=run.pk, worker="worker-a", lease_seconds=60.0), a_force(run))
    assert isinstance(claimed, claims.Claimed)
    assert answer.has_ended_it
    assert check(run.pk).fence > claimed.fence


def test_of_two_one_ends_the_run(owner: Actor) -> None:
    """Two that force at once: the second has sent its first statement before the first's commit."""
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    first, second = race(a_force(run), a_force(run))
    assert (first.has_ended_it, second.has_ended_it, second.too_late) == (True, False, False)
    assert first.effects == second.effects
    check(run.pk)


def test_behind_a_stop_it_ends_what_that_stop_waits_for(owner: Actor) -> None:
    """Stop and force, which has sent its first statement before there was a request: the first reason stays."""
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    _, answer = race(a_stop(run), a_force(run))
    assert (answer.has_ended_it, answer.is_first) == (True, False)
    assert (check(run.pk).status, check(run.pk).cancel_reason) == (Status.NEEDS_RECONCILIATION, "user")


@pytest.mark.parametrize("parent_is_first", [True, False])
def test_parent_and_child_are_forced_at_once(owner: Actor, parent_is_first: bool) -> None:
    """Each by somebody else, with a write under way in the child: either commits while the other waits."""
    parent = a_run(owner)
    child = a_child(parent, a_claim(parent))
    a_dispatch(child, a_claim(child, "worker-b"), worker="worker-b")
    first, second = (parent, child) if parent_is_first else (child, parent)
    answers = race(a_force(first), a_force(second))
    assert [answer.has_ended_it for answer in answers] == [True, not parent_is_first]
    for run in (parent, child):
        assert check(run.pk).status == Status.NEEDS_RECONCILIATION
    assert check(child.pk).cancel_reason == ("parent" if parent_is_first else "operator")
    assert check(parent.pk).open_children == 0
