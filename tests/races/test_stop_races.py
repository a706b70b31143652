"""A stop against everything that may happen at the same moment: PostgreSQL orders the two on the run's row."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, claims, controls, dispatch, endings, steps
from runs.frames import Origin
from runs.ids import new_id
from runs.models import ControlConnection, Operation, Run
from runs.states import CancelReason, Status
from tests.builders import Sent, a_claim, a_dispatch, a_run, silent
from tests.races.invariants import check
from tests.races.two_actors import race

pytestmark = pytest.mark.django_db(transaction=True)


def a_stop(run: Run, reason: CancelReason = CancelReason.USER, **more: Any) -> Any:
    return cancels.request_cancel(run_id=run.pk, reason=reason, **more)


def a_call(run: Run, fence: int, way: str) -> Any:
    """Ways: a write; a read in a transaction of several statements; a read in the one statement of the usual case."""
    effect = "write" if way == "write" else "read"
    step = dispatch.StepCall("1", "tool", "create_invoice", {}, "d" * 64, effect)
    operation = dispatch.OperationCall("k", False, True, 0.0) if way == "write" else None
    return dispatch.dispatch(
        run_id=run.pk, fence=fence, worker="worker-a", step=step, nonce=new_id(), operation=operation,
        origin=Origin(run.pk, run.attempt, run.stream_id) if way == "fresh read" else None,
    )  # fmt: skip


def a_receipt(run: Run, fence: int, sent: Sent) -> Any:
    outcome = steps.OperationOutcome("succeeded", {"proof": "http 201"}, gave_up=True)
    return steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished", outcome=outcome)


@pytest.mark.parametrize("way", ["write", "read", "fresh read"])
def test_a_dispatch_that_waits_behind_a_stop_is_refused(owner, way):
    """Stop and dispatch: the dispatch has sent its first statement, on the row as it was before the stop's commit."""
    run = a_run(owner)
    fence = a_claim(run)
    _, refused = race(a_stop(run), a_call(run, fence, way))
    assert refused == dispatch.Refused("cancel")
    assert check(run.pk).open_ops == 0


@pytest.mark.parametrize("way", ["write", "read", "fresh read"])
def test_a_stop_that_waits_behind_a_dispatch_names_it(owner, way):
    """Dispatch and stop: the stop has sent its first statement before the dispatch committed.

    The lease has passed, so the stop would have ended the run at once had it judged what it saw (RULES H2).
    """
    run = a_run(owner)
    fence = a_claim(run)
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    sent, answer = race(a_call(run, fence, way), a_stop(run))
    assert isinstance(sent, dispatch.Dispatched)
    assert [e["outcome"] for e in answer.effects] == ["pending"]
    assert check(run.pk).status == Status.CANCEL_REQUESTED


def test_a_finish_that_waits_behind_a_stop_does_not_complete(owner):
    """Stop and finish: the finish has sent its first statement before the stop's commit."""
    run = a_run(owner)
    finish = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result="r")
    _, late = race(a_stop(run), finish)
    assert late == endings.NotEnded("cancel")
    assert check(run.pk).has_result is False


def test_a_stop_that_waits_behind_a_finish_is_too_late(owner):
    """Finish and stop: the stop has sent its first statement before the finish's commit."""
    run = a_run(owner)
    finish = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result="r")
    _, answer = race(finish, a_stop(run))
    assert (answer.is_first, answer.too_late) == (False, True)
    assert check(run.pk).status == Status.COMPLETED


def test_a_first_claim_that_waits_behind_a_stop_gets_nothing(owner):
    """Stop and the first claim of a queued run, whose one statement was sent before the stop's commit."""
    run = a_run(owner)
    _, claimed = race(a_stop(run), claims.claim(run_id=run.pk, worker="worker-a", lease_seconds=60.0))
    assert claimed == claims.NotClaimable("cancelled")
    assert check(run.pk).lease_owner is None


def test_a_stop_that_waits_behind_a_first_claim_leaves_the_end_to_its_holder(owner):
    """The first claim and a stop, which has read the run as queued and free before the claim's commit."""
    run = a_run(owner)
    _, answer = race(claims.claim(run_id=run.pk, worker="worker-a", lease_seconds=60.0), a_stop(run))
    assert answer.is_first
    assert check(run.pk).status == Status.CANCEL_REQUESTED


def test_of_two_stops_one_is_the_first(owner):
    """Two stops: the second has sent its first statement before the first's commit."""
    run = a_run(owner)
    a_claim(run)
    first, second = race(a_stop(run), a_stop(run, CancelReason.OPERATOR))
    assert (first.is_first, second.is_first, second.too_late) == (True, False, False)
    assert check(run.pk).cancel_reason == "user"


def test_a_holder_that_looks_while_a_stop_commits_sees_it(owner):
    """Stop and the holder's look: the look has sent its statement before the stop's commit."""
    run = a_run(owner)
    fence = a_claim(run)
    _, seen = race(a_stop(run), claims.see_cancel(run_id=run.pk, fence=fence))
    assert seen == claims.Seen("user")
    assert check(run.pk).status == Status.CANCELLING


@pytest.mark.parametrize("holder_is_first", [True, False])
def test_at_the_stop_deadline_a_receipt_is_committed_or_left_as_evidence(owner, holder_is_first):
    """The holder's receipt and the supervisor's end past the stop deadline: either commits while the other waits."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    decide(a_stop(run), ring=silent)
    Run.objects.filter(pk=run.pk).update(stop_deadline_at=timezone.now() - timedelta(seconds=1))
    receipt, end = a_receipt(run, fence, sent), endings.end_cancel(run_id=run.pk)
    if holder_is_first:
        done, ended = race(receipt, end)
        assert (done, ended.status) == (steps.Done("succeeded"), Status.CANCELLED)
    else:
        ended, done = race(end, receipt)
        assert (done, ended.status) == (claims.Lost(), Status.NEEDS_RECONCILIATION)
    run = check(run.pk)
    assert Operation.objects.get(pk=sent.operation_id).state == ("succeeded" if holder_is_first else "unknown")


@pytest.mark.parametrize("attach_is_first", [True, False])
def test_somebody_who_comes_back_as_the_grace_fires_is_seen_or_told(owner, attach_is_first):
    """Attach and the supervisor's fire of an overdue grace: either commits while the other waits (RULES H17)."""
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    a_claim(run)
    Run.objects.filter(pk=run.pk).update(grace_expires_at=timezone.now() - timedelta(seconds=1))
    attach = controls.attach(run_id=run.pk, user_id=owner.user.pk)
    fire = a_stop(run, CancelReason.CLIENT_GONE, overdue_only=True)
    if attach_is_first:
        attached, fired = race(attach, fire)
        assert (attached is not None, fired) == (True, None)
    else:
        fired, attached = race(fire, attach)
        assert (fired.is_first, attached) == (True, None)
    assert check(run.pk).status == (Status.RUNNING if attach_is_first else Status.CANCEL_REQUESTED)


def test_somebody_who_comes_as_the_run_finishes_is_not_counted_for_ever(owner):
    """Attach and finish, whose one statement was sent when nobody was there yet."""
    run = a_run(owner)
    finish = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED)
    attached, ended = race(controls.attach(run_id=run.pk, user_id=owner.user.pk), finish)
    assert (attached is not None, ended.status) == (True, Status.COMPLETED)
    assert check(run.pk).control_count == 0
    assert ControlConnection.objects.get(run=run).closed_at is not None
