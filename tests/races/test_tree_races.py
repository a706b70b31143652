"""Two actors at one tree: a spawn and a stop, a child's end and its parent's wait, a stop and a child's finish.

The names are those of the model's rules (docs/LIFECYCLE.md, "Child runs"); each is what its bug in the model breaks.
"""

from typing import Any

import pytest

from runs.database import decide
from runs.decisions import cancels, children, endings, operations, waiting
from runs.decisions.creation import NewRun
from runs.decisions.dispatch import Refused, StepCall, dispatch
from runs.ids import new_id
from runs.models import Operation, Run
from runs.states import CancelReason, Status
from tests.builders import a_child, a_claim, a_dispatch, a_run, an_outcome, silent
from tests.races.invariants import check
from tests.races.two_actors import race

pytestmark = pytest.mark.django_db(transaction=True)


def spawn(run: Run, fence: int, path: str = "9") -> Any:
    child = NewRun(
        tenant_id=run.tenant_id, user_id=run.created_by_id, agent="probe", title="t", input={}, metadata={},
        deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
        idempotency_digest=None,
    )  # fmt: skip
    step = StepCall(path, "child", "probe", {}, "c" * 64)
    return children.spawn(run_id=run.pk, fence=fence, root_id=run.root_id, step=step, child=child)


def stop(run: Run) -> Any:
    return cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER)


def finish(run: Run, fence: int, status: Status = Status.COMPLETED) -> Any:
    return endings.finish_run(run_id=run.pk, fence=fence, status=status)


def wait(run: Run, fence: int, wakes: int = 0) -> Any:
    return waiting.wait(run_id=run.pk, fence=fence, wakes=wakes, waiting_for="child")


def again(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def sound(*runs: Run) -> None:
    for run in runs:
        check(run.pk)


@pytest.mark.parametrize("is_stop_first", [True, False])
def test_spawn_guard_nobody_is_born_after_a_stop(owner, is_stop_first):
    """spawn_guard: a spawn waits for the stop that holds the parent's row, or the stop takes the new child along."""
    run = a_run(owner)
    fence = a_claim(run)
    if is_stop_first:
        _, spawned = race(stop(run), spawn(run, fence))
        assert spawned == Refused("cancel")
        assert not Run.objects.filter(parent=run).exists()
    else:
        spawned, _ = race(spawn(run, fence), stop(run))
        child = Run.objects.get(pk=spawned.child_id)
        assert (child.status, child.cancel_reason) == (Status.CANCELLED, "parent")
        assert again(run).open_children == 0
        sound(child)
    sound(run)


def test_tree_cancel_a_stop_that_waits_for_a_child_takes_what_that_child_began_meanwhile(owner):
    """tree_cancel: the stop's list of who lives below is read before it waits for the child that spawns."""
    run = a_run(owner)
    middle = a_child(run, fence := a_claim(run))
    lower = a_child(middle, middle_fence := a_claim(middle))
    lower_fence = a_claim(lower)
    spawned, _ = race(spawn(lower, lower_fence), stop(middle))
    born = Run.objects.get(pk=spawned.child_id)
    assert (born.status, born.cancel_reason) == (Status.CANCELLED, "parent")
    assert [again(one).status for one in (middle, lower)] == [Status.CANCEL_REQUESTED] * 2
    assert again(run).status == Status.RUNNING
    decide(endings.end_cancel(run_id=lower.pk, fence=lower_fence), ring=silent)
    decide(children.count_end(run_id=lower.pk), ring=silent)
    decide(endings.end_cancel(run_id=middle.pk, fence=middle_fence), ring=silent)
    decide(children.count_end(run_id=middle.pk), ring=silent)
    assert isinstance(decide(finish(run, fence), ring=silent), endings.Ended)
    sound(run, middle, lower, born)


@pytest.mark.parametrize("is_stop_first", [True, False])
def test_tree_cancel_a_childs_call_begins_before_the_stop_or_never(owner, is_stop_first):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    fence = a_claim(child)
    step = StepCall("1", "tool", "read", {}, "d" * 64, "read")
    calls = dispatch(run_id=child.pk, fence=fence, worker="worker-a", step=step, nonce=new_id())
    if is_stop_first:
        _, sent = race(stop(run), calls)
        assert sent == Refused("cancel")
    else:
        sent, answer = race(calls, stop(run))
        assert [e["outcome"] for e in answer.effects] == ["pending"]
        assert again(child).open_ops == 1
    sound(run, child)


@pytest.mark.parametrize("is_end_first", [True, False])
def test_wakes_a_childs_end_beside_its_parents_wait_is_never_slept_over(owner, is_end_first):
    """wakes, wakes_first: the parent read its wakes, looked at the child, and now gives its claim back."""
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    decide(finish(child, a_claim(child)), ring=silent)
    told = children.count_end(run_id=child.pk)
    if is_end_first:
        _, waited = race(told, wait(run, fence))
        assert waited == waiting.NotWaiting("woken")
    else:
        waited, _ = race(wait(run, fence), told)
        assert waited == waiting.Waiting()
    assert (again(run).status, again(run).wakes, again(run).open_children) == (Status.RUNNING, 1, 0)
    sound(run, child)


@pytest.mark.parametrize("is_stop_first", [True, False])
def test_settle_children_a_stop_beside_a_childs_finish_ends_the_parent_after_its_child(owner, is_stop_first):
    """settle_children: whoever was first, the parent's end comes after the child's."""
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    decide(wait(run, fence), ring=silent)
    child_fence = a_claim(child)
    if is_stop_first:
        _, ended = race(stop(run), finish(child, child_fence))
        assert ended == endings.NotEnded("cancel")
        assert again(run).status == Status.CANCEL_REQUESTED
        assert decide(endings.end_cancel(run_id=run.pk), ring=silent) == endings.NotEnded("children")
        decide(endings.end_cancel(run_id=child.pk, fence=child_fence), ring=silent)
        decide(children.count_end(run_id=child.pk), ring=silent)
    else:
        ended, _ = race(finish(child, child_fence), stop(run))
        assert isinstance(ended, endings.Ended)
    assert again(run).status == Status.CANCELLED
    assert again(child).terminal_at < again(run).terminal_at
    sound(run, child)


def test_two_stops_of_one_tree_meet_without_a_deadlock(owner):
    """Both lock by id, which is from the root down: the second waits, and finds everything asked."""
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    a_claim(a_child(child, a_claim(child)))
    _, second = race(stop(child), stop(run))
    assert second.is_first is True
    _, third = race(stop(run), stop(child))
    assert third.is_first is False
    assert [again(child).cancel_reason, again(run).cancel_reason] == ["user", "user"]


def test_two_spawns_of_one_tree_are_counted_exactly(owner):
    run = a_run(owner)
    fence = a_claim(run)
    one, two = a_child(run, fence, "1"), a_child(run, fence, "2")
    fences = a_claim(one), a_claim(two)
    Run.objects.filter(pk=run.pk).update(descendants=99)
    first, second = race(spawn(one, fences[0]), spawn(two, fences[1]))
    assert isinstance(first, children.Spawned)
    assert isinstance(second, children.NotBorn)
    assert again(run).descendants == 100


@pytest.mark.parametrize("is_told", [False, True])
def test_a_settled_child_is_told_although_its_doubt_is_told_at_the_same_time(owner, is_told):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    fence = a_claim(child)
    an_outcome(child, fence, a_dispatch(child, fence), "unknown")
    decide(endings.park(run_id=child.pk, fence=fence), ring=silent)
    if is_told:
        decide(children.count_end(run_id=child.pk), ring=silent)
    operation = Operation.objects.get(run=child)
    settle = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=True, source="verdict", detail={}
    )
    _, told = race(settle, children.count_end(run_id=child.pk))
    assert told is True
    assert (again(run).open_children, again(run).unknown_ops, again(child).told_parent) == (0, 0, "settled")
    sound(run, child)
