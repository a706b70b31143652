"""Parent and child: born through the gate, counted until its end, told by the outbox, and stopped as one tree."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import children, dispatch, endings, operations, waiting
from runs.decisions.dispatch import Refused
from runs.errors import NotRetriable
from runs.ids import id_after, new_id, text_id
from runs.models import Operation, OutboxRow, Run, Step
from runs.retrying import retry_run
from runs.states import MOST_DESCENDANTS, CancelReason, Status
from tests.builders import a_child, a_claim, a_dispatch, a_run, a_spawn, an_outcome, silent
from tests.runs.decisions.test_cancels import end, stop, terminal_events
from tests.runs.decisions.test_claims import expire, types_of
from tests.runs.decisions.test_waiting import wait


def tell(child: Run) -> bool:
    return decide(children.count_end(run_id=child.pk), ring=silent)


def finish(run: Run, fence: int, status: Status = Status.COMPLETED, **how: Any) -> Any:
    return decide(endings.finish_run(run_id=run.pk, fence=fence, status=status, **how), ring=silent)


def park(run: Run, fence: int, **how: Any) -> Any:
    return decide(endings.park(run_id=run.pk, fence=fence, **how), ring=silent)


def again(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def in_doubt(run: Run) -> Run:
    """Let a run end in needs_reconciliation."""
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert park(run, fence) == endings.Ended(Status.NEEDS_RECONCILIATION)
    return again(run)


def settle(run: Run) -> None:
    operation = Operation.objects.get(run=run, state="unknown")
    decide(
        operations.settle(
            operation_id=operation.pk, version=operation.version, happened=True, source="verdict", detail={}
        ),
        ring=silent,
    )


# -- spawn ---------------------------------------------------------------------------------------------------------
def test_a_child_is_queued_under_its_parent_and_counted(owner):
    run = a_run(owner)
    fence = a_claim(run)
    child = a_child(run, fence)
    assert (child.status, child.parent_id, child.root_id, child.created_by_id) == (
        Status.QUEUED, run.pk, run.pk, run.created_by_id,
    )  # fmt: skip
    assert (again(run).open_children, again(run).descendants, again(run).open_ops) == (1, 1, 0)
    step = Step.objects.get(pk=child.parent_step_id)
    assert (step.kind, step.state, step.run_id) == ("child", "open", run.pk)
    assert types_of(run)[-2:] == ["step.started", "child.started"]
    assert OutboxRow.objects.filter(run=child, kind="advance").exists()
    grandchild = a_child(child, a_claim(child))
    assert (grandchild.parent_id, grandchild.root_id, again(run).descendants) == (child.pk, run.pk, 2)


@pytest.mark.parametrize("gone", ["fence", "status", "deadline", "unknown", "rights", "budget"])
def test_a_child_is_born_only_through_the_gate(owner, gone):
    run = a_run(owner, budget_tokens=5)
    fence = a_claim(run)
    row = Run.objects.filter(pk=run.pk)
    wanted = {"fence": "lost", "status": "cancel", "deadline": "deadline", "unknown": "unknown_open"}.get(gone, gone)
    if gone == "fence":
        fence -= 1
    elif gone == "status":
        stop(run)
    elif gone == "deadline":
        row.update(deadline_at=timezone.now() - timedelta(seconds=1))
    elif gone == "unknown":
        an_outcome(run, fence, a_dispatch(run, fence, path="9"), "unknown")
    elif gone == "rights":
        owner.user.is_active = False
        owner.user.save()
    else:
        row.update(input_tokens=3, output_tokens=2)
    assert a_spawn(run, fence) == Refused(wanted)
    assert not Run.objects.filter(parent=run).exists()
    assert (again(run).open_children, again(run).descendants) == (0, 0)


def test_a_run_that_waits_begins_no_child(owner):
    run = a_run(owner)
    fence = a_claim(run)
    wait(run, fence)
    assert a_spawn(run, fence + 1) == Refused("not_running")


def test_a_stopped_run_in_a_full_tree_begins_no_step(owner):
    run = a_run(owner)
    fence = a_claim(run)
    Run.objects.filter(pk=run.pk).update(descendants=MOST_DESCENDANTS)
    stop(run)
    assert a_spawn(run, fence) == Refused("cancel")
    assert not Step.objects.filter(run=run).exists()


def test_a_tree_has_a_hundred_descendants_and_no_more(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    Run.objects.filter(pk=run.pk).update(descendants=MOST_DESCENDANTS)
    refused = a_spawn(child, a_claim(child))
    assert isinstance(refused, children.NotBorn)
    step = Step.objects.get(run=child)
    assert (step.state, step.error["code"]) == ("failed", "too_many_children")
    assert (again(child).open_children, again(run).descendants) == (0, MOST_DESCENDANTS)
    assert types_of(child)[-2:] == ["step.started", "step.finished"]


def test_a_child_ends_at_its_parents_deadline_at_the_latest(owner):
    run = a_run(owner, deadline_seconds=100.0)
    fence = a_claim(run)
    assert a_child(run, fence, deadline_seconds=600.0).deadline_at == again(run).deadline_at
    assert a_child(run, fence, "2", deadline_seconds=50.0).deadline_at < again(run).deadline_at


def test_a_childs_id_is_after_its_parents_whatever_the_clocks_say():
    ahead = new_id().int + (3_600_000 << 80)
    older = type(new_id())(int=ahead)
    assert id_after(older) > older
    assert id_after(older).version == 7
    recent = new_id()
    assert id_after(recent) > recent


# -- a child's end -------------------------------------------------------------------------------------------------
def test_a_childs_result_wakes_the_parent_and_is_its_steps_result(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    assert wait(run, fence, what="child") == waiting.Waiting()
    finish(child, a_claim(child), result={"a": 1})
    assert again(run).status == Status.WAITING  # by the outbox only
    assert OutboxRow.objects.filter(run=child, kind="child").exists()
    assert (tell(child), tell(child)) == (True, False)
    parent, step = again(run), Step.objects.get(pk=child.parent_step_id)
    assert (parent.status, parent.open_children, parent.wakes) == (Status.RUNNING, 0, 1)
    assert (step.state, step.result) == ("finished", {"value": {"a": 1}})
    assert types_of(run)[-3:] == ["child.finished", "step.finished", "run.resumed"]
    assert not OutboxRow.objects.filter(run=child).exists()
    assert OutboxRow.objects.filter(run=run, kind="advance").exists()


def test_a_child_that_goes_on_is_not_counted_as_ended(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    a_claim(child)
    assert tell(child) is False
    assert (again(run).open_children, again(run).wakes) == (1, 0)


def test_a_parent_that_looked_before_its_childs_end_does_not_wait(owner):
    """RULES H11 (b): the count of wakes was read before the look, so the end in between is seen."""
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    wakes = again(run).wakes
    finish(child, a_claim(child))
    tell(child)
    assert wait(run, fence, wakes=wakes, what="child") == waiting.NotWaiting("woken")


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_child_without_a_result_fails_the_step_with_its_reason(owner, how):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    if how == "failed":
        finish(child, a_claim(child), Status.FAILED, error_code="agent_error", error_message="it broke")
    else:
        stop(child)
    tell(child)
    step = Step.objects.get(pk=child.parent_step_id)
    wanted = {"failed": ("agent_error", "it broke"),
              "cancelled": ("child_cancelled", "The child run was stopped (user).")}[how]  # fmt: skip
    assert (step.state, step.error["code"], step.error["message"]) == ("failed", *wanted)
    assert step.error["child_id"] == text_id("run", child.pk)
    assert again(run).status == Status.RUNNING


def test_a_child_in_doubt_counts_as_unknown_until_it_is_settled(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    in_doubt(child)
    assert tell(child) is True
    assert (again(run).open_children, again(run).unknown_ops) == (0, 1)
    assert Step.objects.get(pk=child.parent_step_id).state == "open"
    assert a_spawn(run, fence, "2") == Refused("unknown_open")
    assert finish(run, fence) == endings.NotEnded("open")
    settle(child)
    assert OutboxRow.objects.filter(run=child, kind="child").exists()
    assert (tell(child), tell(child)) == (True, False)
    assert (again(run).unknown_ops, Step.objects.get(pk=child.parent_step_id).state) == (0, "failed")
    assert isinstance(finish(run, fence), endings.Ended)
    assert types_of(run).count("child.settled") == 1


def test_a_parked_parent_is_reconciled_with_its_child(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    in_doubt(child)
    tell(child)
    assert park(run, fence, has_result=True, result=1) == endings.Ended(Status.NEEDS_RECONCILIATION)
    assert again(run).unknown_ops == 1
    settle(child)
    tell(child)
    assert (again(run).status, again(run).unknown_ops) == (Status.COMPLETED, 0)
    assert types_of(run)[-2:] == ["child.settled", "run.reconciled"]
    assert len(terminal_events(run)) == 1


def test_a_grandparent_hears_of_a_reconciled_parent(owner):
    run = a_run(owner)
    middle = a_child(run, fence := a_claim(run))
    leaf = a_child(middle, middle_fence := a_claim(middle))
    in_doubt(leaf)
    tell(leaf)
    park(middle, middle_fence)
    tell(middle)
    park(run, fence)
    settle(leaf)
    assert (tell(leaf), tell(middle)) == (True, True)
    assert (again(middle).status, again(run).status) == (Status.FAILED, Status.FAILED)


# -- what an open child keeps its parent from ------------------------------------------------------------------------
def test_an_open_child_keeps_its_parent_from_finishing_and_parking_but_not_from_waiting(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    assert finish(run, fence) == endings.NotEnded("children")
    an_outcome(run, fence, a_dispatch(run, fence, path="2"), "unknown")
    assert park(run, fence) == endings.NotEnded("children")
    assert wait(run, fence, what="child") == waiting.Waiting()  # its child goes on: then it parks
    finish(child, a_claim(child))
    tell(child)
    assert wait(run, a_claim(run), wakes=1) == waiting.NotWaiting("open")
    assert park(run, again(run).fence) == endings.Ended(Status.NEEDS_RECONCILIATION)


def test_a_finish_as_seen_is_refused_when_a_child_is_open(owner):
    """The one-statement end of a run stands on the row as well: no step of it is open, but a child is."""
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    Step.objects.filter(pk=child.parent_step_id).update(state="abandoned", finished_at=timezone.now())
    assert finish(run, fence) == endings.NotEnded("children")
    a_claim(child)
    stop(run)
    assert end(run, fence) == endings.NotEnded("children")


# -- stop ----------------------------------------------------------------------------------------------------------
def test_a_stop_takes_the_whole_tree_in_one_transaction(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    grandchild = a_child(child, child_fence := a_claim(child))
    fence = a_claim(grandchild)
    answer = stop(run, by=owner.user.pk, note="enough")
    rows = [again(one) for one in (run, child, grandchild)]
    assert [r.status for r in rows] == [Status.CANCEL_REQUESTED] * 3
    assert [r.cancel_reason for r in rows] == ["user", "parent", "parent"]
    assert [(e["kind"], e["outcome"]) for e in answer.effects] == [("child", "pending")]
    assert a_spawn(grandchild, fence, "9") == Refused("cancel")
    assert end(run, again(run).fence) == endings.NotEnded("children")
    assert end(grandchild, fence) == endings.Ended(Status.CANCELLED, [])
    tell(grandchild)
    assert isinstance(end(child, child_fence), endings.Ended)
    tell(child)
    assert again(run).status == Status.CANCEL_REQUESTED  # a holder is at work: the end is the holder's
    assert isinstance(end(run, again(run).fence), endings.Ended)
    (effect,) = again(run).cancel_effects
    assert (effect["outcome"], effect["child_id"]) == ("stopped", text_id("run", child.pk))


def test_a_tree_that_nobody_holds_ends_at_once_leaves_first(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    grandchild = a_child(child, child_fence := a_claim(child))
    wait(child, child_fence, what="child")
    wait(run, fence, what="child")
    answer = stop(run)
    rows = [again(one) for one in (run, child, grandchild)]
    assert [r.status for r in rows] == [Status.CANCELLED] * 3
    assert rows[2].terminal_at < rows[1].terminal_at < rows[0].terminal_at
    assert [r.told_parent for r in rows] == [None, "settled", "settled"]
    assert [e["outcome"] for e in answer.effects] == ["stopped"]
    assert [e["outcome"] for e in again(child).cancel_effects] == ["not_started"]
    assert not OutboxRow.objects.filter(run__in=rows).exists()
    for one in rows:
        assert len(terminal_events(one)) == 1


def test_a_stop_counts_a_childs_end_that_the_outbox_has_not_told_yet(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    wait(run, fence, what="child")
    finish(child, a_claim(child), result="done")
    stop(run)
    assert again(run).status == Status.CANCELLED
    assert [e["outcome"] for e in again(run).cancel_effects] == ["finished_first"]
    assert tell(child) is False


def test_a_stopping_parent_without_a_holder_ends_with_its_last_child(owner):
    run = a_run(owner)
    first = a_child(run, fence := a_claim(run))
    second = a_child(run, fence, "2")
    wait(run, fence, what="child")
    fences = [a_claim(first), a_claim(second)]
    stop(run)
    assert again(run).status == Status.CANCEL_REQUESTED
    assert end(run) == endings.NotEnded("children")  # a supervisor must not, either
    end(first, fences[0])
    tell(first)
    assert again(run).status == Status.CANCEL_REQUESTED
    end(second, fences[1])
    tell(second)
    assert again(run).status == Status.CANCELLED
    assert [e["outcome"] for e in again(run).cancel_effects] == ["stopped", "stopped"]


def test_a_stopped_tree_with_a_child_in_doubt_needs_reconciliation(owner):
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    wait(run, fence, what="child")
    a_dispatch(child, a_claim(child))
    expire(child)
    stop(run)
    assert end(child).status == Status.NEEDS_RECONCILIATION
    tell(child)
    assert (again(run).status, again(run).unknown_ops) == (Status.NEEDS_RECONCILIATION, 1)
    settle(child)
    tell(child)
    assert again(run).status == Status.CANCELLED


def test_a_child_that_is_stopped_alone_leaves_its_parent_running(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    stop(child)
    tell(child)
    assert (again(child).status, again(run).status, again(run).cancel_id) == (Status.CANCELLED, Status.RUNNING, None)


def test_a_stop_of_a_stopping_tree_changes_nothing(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    stop(run)
    first = again(child).cancel_id, types_of(run)
    assert stop(run).is_first is False
    assert (again(child).cancel_id, types_of(run)) == first


# -- policy --------------------------------------------------------------------------------------------------------
def test_a_spent_budget_stops_the_tree_and_one_that_is_left_does_not(owner):
    run = a_run(owner, budget_tokens=10)
    child = a_child(run, a_claim(run))
    child_fence = a_claim(child)
    Run.objects.filter(pk=child.pk).update(output_tokens=6)
    assert stop(run, CancelReason.POLICY, overdue_only=True) is None
    Run.objects.filter(pk=run.pk).update(input_tokens=4)
    assert isinstance(a_spawn(child, child_fence), Refused)
    assert stop(run, CancelReason.POLICY, overdue_only=True).is_first is True
    assert [again(one).cancel_reason for one in (run, child)] == ["policy", "parent"]


@pytest.mark.parametrize("effect", [None, "read", "write"])
@pytest.mark.parametrize("gone", ["deactivated", "viewer", "out"])
def test_who_lost_the_right_to_run_things_begins_nothing_more(owner, effect, gone):
    run = a_run(owner)
    fence = a_claim(run)
    if gone == "deactivated":
        owner.user.is_active = False
        owner.user.save()
    elif gone == "viewer":
        owner.user.memberships.update(role="viewer")
    else:
        owner.user.memberships.all().delete()
    with pytest.raises(AssertionError, match="rights"):
        a_dispatch(run, fence, kind="tool" if effect else "model", effect=effect)
    assert (again(run).open_ops, Step.objects.filter(run=run).exists()) == (0, False)
    assert stop(run, CancelReason.POLICY, overdue_only=True).is_first is True


def test_a_claim_leaves_an_open_child_step_as_it_is(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    expire(run)
    a_claim(run, "worker-b")
    assert Step.objects.get(pk=child.parent_step_id).state == "open"
    assert again(run).open_children == 1


def test_a_child_is_retried_with_its_parent_only(owner):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    stop(child)
    with pytest.raises(NotRetriable) as refused:
        retry_run(actor=owner, run_id=child.pk)
    assert refused.value.code == "run_is_child"


# -- retry ---------------------------------------------------------------------------------------------------------
def a_retried_parent(owner: Any) -> tuple[Run, Run, int]:
    """Let a child commit a write and fail, its parent fail with it, and the parent be tried again."""
    run = a_run(owner)
    child = a_child(run, fence := a_claim(run))
    child_fence = a_claim(child)
    an_outcome(child, child_fence, a_dispatch(child, child_fence), "succeeded")
    finish(child, child_fence, Status.FAILED, error_code="agent_error", error_message="it broke")
    tell(child)
    finish(run, fence, Status.FAILED, error_code="agent_error", error_message="it broke")
    retry_run(actor=owner, run_id=run.pk)
    return again(run), again(child), a_claim(run, "worker-b")


def test_a_retry_tries_its_child_again_so_that_nothing_is_done_twice(owner):
    run, child, fence = a_retried_parent(owner)
    spawned = a_spawn(run, fence, deadline_seconds=1e6)
    assert spawned.child_id == child.pk
    tried = again(child)
    assert (tried.status, tried.attempt, tried.told_parent, tried.parent_step_id) == (
        Status.QUEUED, 2, None, spawned.step_id,
    )  # fmt: skip
    assert tried.deadline_at <= again(run).deadline_at + timedelta(seconds=1)
    assert (again(run).open_children, again(run).descendants) == (1, 1)
    known = decide(
        dispatch.dispatch(
            run_id=child.pk, fence=a_claim(tried), worker="worker-b", nonce=new_id(),
            step=dispatch.StepCall("1", "tool", "create_invoice", {"cents": 1}, "d" * 64, "write"),
            operation=dispatch.OperationCall(f"{child.pk.hex}:1", False, True, 0.0),
        ),
        ring=silent,
    )  # fmt: skip
    assert isinstance(known, dispatch.InOperation)
    finish(tried, again(tried).fence, result="done")
    assert tell(tried) is True
    assert (again(run).open_children, again(run).wakes) == (0, 1)


def test_another_call_at_the_childs_place_is_a_child_of_its_own(owner):
    run, child, fence = a_retried_parent(owner)
    spawned = a_spawn(run, fence, "2")
    assert spawned.child_id != child.pk
    assert again(child).attempt == 1


def test_a_child_with_a_contradicted_operation_is_not_tried_again(owner):
    run, child, fence = a_retried_parent(owner)
    Operation.objects.filter(run=child).update(contradicted_at=timezone.now())
    refused = a_spawn(run, fence)
    assert isinstance(refused, children.NotBorn)
    assert refused.error["code"] == "operation_contradicted"
    assert (again(child).attempt, again(run).open_children) == (1, 0)


def test_another_call_at_the_place_of_an_earlier_child_is_a_child_of_its_own(owner):
    """The old child was asked something else: tried again, its answer would be taken for the new one's."""
    run, child, fence = a_retried_parent(owner)
    spawned = a_spawn(run, fence, digest="d" * 64)
    assert isinstance(spawned, children.Spawned)
    assert spawned.child_id != child.pk
    assert again(child).attempt == 1


def test_a_child_is_tried_again_only_through_the_gate(owner):
    run, child, fence = a_retried_parent(owner)
    assert a_spawn(run, fence - 1) == Refused("lost")
    stop(run)
    assert a_spawn(run, fence) == Refused("cancel")
    assert again(child).attempt == 1
