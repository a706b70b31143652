"""The gate: what may begin, and what an operation's own state forbids."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, dispatch, endings, operations, steps
from runs.errors import RuleBroken
from runs.frames import Origin
from runs.ids import new_id
from runs.models import Event, Operation, Run
from runs.states import CancelReason, OperationState, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire


def try_dispatch(run: Run, fence: int, *, path: str = "1", key: str = "k", effect: str = "write") -> Any:
    call = dispatch.StepCall(path, "tool", "create_invoice", {"cents": 1}, "d" * 64, effect)
    operation = dispatch.OperationCall(key, False, True, 0.0) if effect != "read" else None
    return decide(
        dispatch.dispatch(
            run_id=run.pk,
            fence=fence,
            worker="worker-a",
            step=call,
            nonce=new_id(),
            operation=operation,
            origin=Origin(run.pk, run.attempt, run.stream_id),
        ),
        ring=silent,
    )


def test_a_dispatch_is_on_the_row_in_the_ledger_and_in_the_stream(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, key="k", bound=7.0)
    run.refresh_from_db()
    operation = Operation.objects.get(pk=sent.operation_id)
    assert (run.open_ops, operation.state, operation.fence, operation.nonce) == (1, "dispatched", fence, sent.nonce)
    assert operation.horizon_at - operation.send_by == timedelta(seconds=7)
    names = Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("type", flat=True)
    assert list(names)[-3:] == ["step.started", "tool.started", "tool.dispatched"]


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_nothing_is_dispatched_after_a_cancel(owner, effect):
    run = a_run(owner)
    fence = a_claim(run)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert try_dispatch(run, fence, effect=effect) == dispatch.Refused("cancel")
    assert not Operation.objects.filter(run=run).exists()


@pytest.mark.parametrize("effect", ["read", "write"])
def test_nothing_is_dispatched_by_a_lost_fence(owner, effect):
    run = a_run(owner)
    old = a_claim(run)
    expire(run)
    a_claim(run, "worker-b")
    assert try_dispatch(run, old, effect=effect) == dispatch.Refused("lost")


@pytest.mark.parametrize("effect", ["read", "write"])
def test_nothing_is_dispatched_past_the_deadline(owner, effect):
    run = a_run(owner)
    fence = a_claim(run)
    Run.objects.filter(pk=run.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    assert try_dispatch(run, fence, effect=effect) == dispatch.Refused("deadline")


def test_one_unknown_operation_stops_all_further_dispatches(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert try_dispatch(run, fence, path="2", key="other", effect="read") == dispatch.Refused("unknown_open")


def test_a_dispatched_write_is_never_dispatched_again_by_the_next_holder(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k")
    expire(run)
    again = try_dispatch(run, a_claim(run, "worker-b"))
    assert isinstance(again, dispatch.InOperation)
    assert again.operation["state"] == OperationState.DISPATCHED


def test_a_dispatched_idempotent_call_is_sent_again_under_its_key_and_counted_once(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k", effect="idempotent")
    expire(run)
    new = a_claim(run, "worker-b")
    again = try_dispatch(run, new, effect="idempotent")
    assert isinstance(again, dispatch.Dispatched)
    run.refresh_from_db()
    operation = Operation.objects.get(run=run)
    assert (run.open_ops, operation.is_ambiguous, operation.fence) == (1, True, new)


def test_the_same_holder_cannot_get_two_permits_for_one_idempotent_call(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k", effect="idempotent")
    assert isinstance(try_dispatch(run, fence, effect="idempotent"), dispatch.InOperation)


def test_a_refusal_after_a_try_without_receipt_is_unknown_and_not_failed(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k", effect="idempotent")
    expire(run)
    new = a_claim(run, "worker-b")
    second = try_dispatch(run, new, effect="idempotent")
    outcome = steps.OperationOutcome("failed", {"error": "503"}, gave_up=True)
    done = decide(
        steps.finish_step(run_id=run.pk, fence=new, step_id=second.step_id, state="failed", outcome=outcome),
        ring=silent,
    )
    assert done == steps.Done("unknown")


@pytest.mark.parametrize(("receipt", "allowed"), [({"retryable": True}, True), ({"retryable": False}, False)])
def test_a_refused_operation_is_tried_again_only_if_the_refusal_says_so(owner, receipt, allowed):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, key="k")
    outcome = steps.OperationOutcome("failed", receipt)
    decide(
        steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="failed", outcome=outcome),
        ring=silent,
    )
    assert isinstance(try_dispatch(run, fence), dispatch.Dispatched) is allowed


def test_a_finished_step_is_never_begun_again(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence, key="k"), "succeeded")
    with pytest.raises(RuleBroken):
        a_dispatch(run, fence, key="another key", path="1")


def test_after_an_unclear_commit_only_the_own_nonce_is_a_permit(owner):
    run = a_run(owner)
    sent = a_dispatch(run, a_claim(run), key="k")
    assert decide(dispatch.whose_permit(key="k", nonce=sent.nonce), ring=silent) is True
    assert decide(dispatch.whose_permit(key="k", nonce=new_id()), ring=silent) is False
    assert decide(dispatch.whose_permit(key="never", nonce=sent.nonce), ring=silent) is False


def test_a_stale_holder_cannot_record_a_receipt(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    expire(run)
    a_claim(run, "worker-b")
    assert an_outcome(run, fence, sent, "succeeded").__class__.__name__ == "Lost"
    assert Operation.objects.get(pk=sent.operation_id).state == "dispatched"


def test_a_new_holder_calls_an_old_dispatch_unknown_and_evidence_settles_it_before(owner):
    run = a_run(owner)
    fence = a_claim(run)
    bare = a_dispatch(run, fence, key="bare")
    proven = a_dispatch(run, fence, path="2", key="proven")
    expire(run)
    decide(
        operations.record_evidence(
            operation_id=proven.operation_id, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
        ),
        ring=silent,
    )
    new = a_claim(run, "worker-b")
    for sent in (bare, proven):
        decide(
            operations.mark_unknown(run_id=run.pk, fence=new, operation_id=sent.operation_id, message="worker died"),
            ring=silent,
        )
    run.refresh_from_db()
    states = dict(Operation.objects.filter(run=run).values_list("key", "state"))
    assert states == {"bare": "unknown", "proven": "succeeded"}
    assert (run.open_ops, run.unknown_ops) == (0, 1)


def test_a_receipt_that_a_new_holder_takes_adds_to_the_version(owner):
    """Else a step could be finished as it was seen before (core.see_run)."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    proof = operations.record_evidence(
        operation_id=sent.operation_id, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
    )
    decide(proof, ring=silent)
    expire(run)
    new = a_claim(run, "worker-b")
    before = Run.objects.get(pk=run.pk).version
    decide(operations.mark_unknown(run_id=run.pk, fence=new, operation_id=sent.operation_id, message=""), ring=silent)
    assert Run.objects.get(pk=run.pk).version > before


def test_finish_needs_everything_closed(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    finish = {"run_id": run.pk, "fence": fence, "status": Status.COMPLETED, "result": "r"}
    assert decide(endings.finish_run(**finish), ring=silent) == endings.NotEnded("open")
    an_outcome(run, fence, sent, "unknown")
    assert decide(endings.finish_run(**finish), ring=silent) == endings.NotEnded("open")
    parked = decide(endings.park(run_id=run.pk, fence=fence, has_result=True, result="r"), ring=silent)
    assert parked == endings.Ended(Status.NEEDS_RECONCILIATION)


def test_park_waits_for_siblings_in_flight(owner):
    run = a_run(owner)
    fence = a_claim(run)
    first = a_dispatch(run, fence, path="1")
    second = a_dispatch(run, fence, path="2")
    an_outcome(run, fence, first, "unknown")
    assert decide(endings.park(run_id=run.pk, fence=fence), ring=silent) == endings.NotEnded("open")
    an_outcome(run, fence, second, "succeeded")
    assert isinstance(decide(endings.park(run_id=run.pk, fence=fence), ring=silent), endings.Ended)
