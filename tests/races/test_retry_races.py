"""A retry that meets another one, a verdict, or a receipt: the row orders them, and nothing is done twice."""

from typing import Any

import pytest

from runs import frames
from runs.database import decide
from runs.decisions import cancels, claims, dispatch, endings, operations, retry
from runs.ids import new_id
from runs.models import Attempt, Event, Operation, Run
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.races.invariants import check
from tests.races.two_actors import race

pytestmark = pytest.mark.django_db(transaction=True)


def again(run: Run, **more: Any) -> Any:
    return retry.retry(retry.Wish(run_id=run.pk, user_id=run.created_by_id, user_name="owner", **more))


def ended(owner: Any) -> Run:
    run = a_run(owner)
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.FAILED), ring=silent)
    return Run.objects.get(pk=run.pk)


def in_doubt(owner: Any) -> tuple[Run, Operation]:
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    return Run.objects.get(pk=run.pk), Operation.objects.get(pk=sent.operation_id)


def verdict(operation: Operation, happened: bool) -> Any:
    return operations.settle(
        operation_id=operation.pk, version=operation.version, happened=happened, source="verdict", detail={},
        override=True,
    )  # fmt: skip


def receipt(operation: Operation) -> Any:
    return operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=True, detail={}
    )


def late_receipts(run: Run) -> int:
    stream = Run.objects.get(pk=run.pk).stream_id
    return Event.objects.filter(stream_id=stream, type="operation.late_receipt").count()


def test_of_two_retries_at_once_one_makes_an_attempt(owner):
    """Two people press Retry: the second has sent its first statement before the first's commit."""
    run = ended(owner)
    first, second = race(again(run), again(run))
    assert (first.number, second) == (2, retry.NotRetried("not_settled"))
    assert check(run.pk).attempt == Attempt.objects.filter(run=run).count() == 2


def test_a_repeated_retry_that_waits_behind_the_first_brings_it_back(owner):
    """One click sent twice, with one key."""
    run = ended(owner)
    wish = {"idempotency_key": "k", "idempotency_digest": "d"}
    first, second = race(again(run, **wish), again(run, **wish))
    assert second == retry.Retried(first.number, first.stream_id, is_new=False)
    assert check(run.pk).attempt == 2


def test_a_retry_that_waits_behind_the_reconcile_finds_a_settled_run(owner):
    """Verdict and retry: the retry has sent its first statement on a run in doubt before the verdict's commit."""
    run, operation = in_doubt(owner)
    settled, made = race(verdict(operation, True), again(run))
    assert (settled.run_status, made.number) == ("failed", 2)
    assert check(run.pk).status == Status.QUEUED


def test_a_reconcile_that_waits_behind_a_refused_retry_settles(owner):
    """Retry and verdict: the retry meets the run in doubt, and the verdict waits for its row."""
    run, operation = in_doubt(owner)
    refused, settled = race(again(run), verdict(operation, True))
    assert (refused, settled.run_status) == (retry.NotRetried("not_settled"), "failed")
    assert check(run.pk).attempt == 1


def test_a_retry_that_waits_behind_a_late_receipt_is_refused(owner):
    """Receipt and retry: what was thought not to have happened did, and the retry sees it."""
    run, operation = in_doubt(owner)
    decide(verdict(operation, False), ring=silent)
    _, refused = race(receipt(operation), again(run))
    assert refused == retry.NotRetried("contradicted", [operation.pk])
    assert check(run.pk).attempt == 1


def test_a_late_receipt_that_waits_behind_the_retry_is_told_to_the_new_attempt_and_bars_the_call(owner):
    """Retry and receipt: the receipt has looked at the settled run before the retry's commit."""
    run, operation = in_doubt(owner)
    decide(verdict(operation, False), ring=silent)
    made, _ = race(again(run), receipt(operation))
    assert (made.number, late_receipts(run)) == (2, 1)
    event = Event.objects.get(stream_id=made.stream_id, seq=2)
    assert frames.decode(2, event.data)["data"]["operation_key"] == operation.key
    fence = a_claim(run)
    step = dispatch.StepCall("1", "tool", "create_invoice", {"cents": 1}, "d" * 64, "write")
    call = dispatch.OperationCall(operation.key, False, True, 0.0)
    sent = dispatch.dispatch(run_id=run.pk, fence=fence, worker="w", step=step, nonce=new_id(), operation=call)
    assert isinstance(decide(sent, ring=silent), dispatch.InOperation)
    check(run.pk)


def test_a_retry_that_waits_behind_the_end_begins_at_once(owner):
    run = a_run(owner)
    end = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.FAILED)
    _, made = race(end, again(run))
    assert made.number == 2
    assert check(run.pk).status == Status.QUEUED


def test_a_stop_that_waits_behind_the_retry_stops_the_new_attempt(owner):
    """Retry and stop: the stop was sent to a run that had ended, and meets one that is queued again."""
    run = ended(owner)
    made, stopped = race(again(run), cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER))
    assert (made.number, stopped.is_first) == (2, True)
    assert check(run.pk).status == Status.CANCELLED


def test_a_frozen_worker_of_the_attempt_before_writes_nothing_into_the_new_one(owner):
    """RULES H1: its fence, its permit and its batch are all of an older claim."""
    run = a_run(owner)
    stale = a_claim(run)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    Run.objects.filter(pk=run.pk).update(stop_deadline_at=run.created_at)
    decide(endings.end_cancel(run_id=run.pk), ring=silent)
    decide(again(run), ring=silent)
    a_claim(run, "worker-b")
    release = claims.release(run_id=run.pk, fence=stale)
    assert decide(release, ring=silent) == claims.Lost()
    assert check(run.pk).lease_owner == "worker-b"
