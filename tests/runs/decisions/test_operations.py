"""Settling an unknown outcome: what counts as proof, when, and what the run becomes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, claims, endings, operations
from runs.decisions.evidence import insert_evidence
from runs.models import Attempt, Evidence, Operation, Run
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def parked(owner, *, gave_up=True, cancel=False, has_result=False, bound=0.0):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, bound=bound)
    if cancel:
        decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    an_outcome(run, fence, sent, "unknown", gave_up=gave_up)
    if cancel:
        decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)
    else:
        decide(endings.park(run_id=run.pk, fence=fence, has_result=has_result, result="r"), ring=silent)
    run.refresh_from_db()
    assert run.status == Status.NEEDS_RECONCILIATION
    return run, Operation.objects.get(pk=sent.operation_id)


def settle(operation, happened, **more):
    fields = {"version": operation.version, "source": "verdict", "detail": {"proof": "test"}, "note": "n"} | more
    return decide(operations.settle(operation_id=operation.pk, happened=happened, **fields), ring=silent)


def past_horizon(operation):
    Operation.objects.filter(pk=operation.pk).update(horizon_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("kind", "status"),
    [({"cancel": True}, Status.CANCELLED), ({"has_result": True}, Status.COMPLETED), ({}, Status.FAILED)],
)
def test_a_settled_run_becomes_what_it_would_have_been_and_keeps_its_terminal_event(owner, kind, status):
    run, operation = parked(owner, **kind)
    ended_at = run.terminal_at
    assert settle(operation, True).run_status == status
    run.refresh_from_db()
    assert (run.status, run.unknown_ops, run.terminal_at) == (status, 0, ended_at)
    assert types_of(run)[-3:] == ["run.needs_reconciliation", "operation.settled", "run.reconciled"]
    assert Evidence.objects.get(operation=operation).kind == "verdict"


def test_a_positive_answer_counts_before_the_horizon_and_a_negative_one_does_not(owner):
    _, operation = parked(owner, bound=3600.0)
    early = settle(operation, False)
    assert (early.reason, early.holder_gone) == ("not_yet", True)
    assert isinstance(settle(operation, True), operations.Settled)


def test_not_happened_counts_after_the_horizon_once_the_holder_is_gone(owner):
    run, operation = parked(owner)
    past_horizon(operation)
    assert settle(operation, False).state == "refuted"
    run.refresh_from_db()
    assert run.status == Status.FAILED


def test_not_happened_is_not_believed_while_nobody_saw_the_holder_end(owner):
    _, operation = parked(owner, gave_up=False)
    past_horizon(operation)
    assert settle(operation, False).reason == "not_yet"
    assert isinstance(settle(operation, False, override=True), operations.Settled)
    assert Evidence.objects.get(operation=operation).detail["override"] is True


def test_a_sealed_key_makes_a_negative_answer_final(owner):
    _, operation = parked(owner, gave_up=False, bound=3600.0)
    assert isinstance(settle(operation, False, sealed=True), operations.Settled)


def test_of_two_operators_the_second_is_told_that_it_was_decided(owner):
    _, operation = parked(owner)
    assert isinstance(settle(operation, True), operations.Settled)
    assert settle(operation, False).reason == "decided"


def test_a_verdict_on_an_old_version_is_stale(owner):
    _, operation = parked(owner)
    Operation.objects.filter(pk=operation.pk).update(version=operation.version + 1)
    assert settle(operation, True).reason == "stale"


def test_b57_a_late_receipt_against_a_decision_is_flagged_and_flips_nothing(owner):
    run, operation = parked(owner)
    past_horizon(operation)
    settle(operation, False)
    decide(
        operations.record_evidence(
            operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=True, detail={}
        ),
        ring=silent,
    )
    operation.refresh_from_db()
    assert (operation.state, operation.contradicted_at is not None) == ("refuted", True)
    assert Run.objects.get(pk=run.pk).status == Status.FAILED


def a_receipt(operation, fence=None):
    said = operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence if fence is None else fence, kind="receipt", happened=True,
        detail={"proof": "http 201"},
    )  # fmt: skip
    decide(said, ring=silent)


@pytest.mark.parametrize("how", [{}, {"override": True}, {"sealed": True}])
def test_nobody_says_did_not_happen_against_a_receipt(owner, how):
    _, operation = parked(owner)
    past_horizon(operation)
    a_receipt(operation)
    operation.refresh_from_db()
    assert settle(operation, False, **how).reason == "receipt"
    assert settle(operation, True).state == "confirmed"


def test_a_receipt_of_an_older_try_bars_it_as_well(owner):
    _, operation = parked(owner)
    due = operation.next_look_up_at
    a_receipt(operation, fence=operation.fence - 1)
    operation.refresh_from_db()
    assert operation.next_look_up_at == due
    assert settle(operation, False, override=True).reason == "receipt"


def test_a_receipt_that_came_after_the_operator_read_makes_the_verdict_stale(owner):
    _, operation = parked(owner)
    a_receipt(operation)
    assert settle(operation, False, override=True).reason == "stale"


def test_a_refusal_is_no_receipt(owner):
    _, operation = parked(owner)
    fields = {"kind": "refusal", "happened": False, "detail": {}}
    decide(operations.record_evidence(operation_id=operation.pk, fence=operation.fence, **fields), ring=silent)
    assert settle(operation, False, override=True).state == "refuted"


def test_two_unknown_operations_need_two_verdicts(owner):
    run = a_run(owner)
    fence = a_claim(run)
    both = [a_dispatch(run, fence, path=p) for p in "12"]
    for sent in both:
        an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    first, second = Operation.objects.filter(run=run)
    assert settle(first, True).run_status == Status.NEEDS_RECONCILIATION
    assert settle(second, True).run_status == Status.FAILED


def test_a_late_receipt_makes_an_operation_due_that_the_supervisor_had_given_up(owner):
    _, operation = parked(owner)
    decide(operations.plan_look_up(operation_id=operation.pk, seconds=None), ring=silent)
    for fence in (operation.fence + 1, operation.fence):
        operation.refresh_from_db()
        assert operation.next_look_up_at is None
        decide(
            operations.record_evidence(
                operation_id=operation.pk, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
            ),
            ring=silent,
        )
    operation.refresh_from_db()
    assert (operation.state, operation.next_look_up_at is not None) == ("unknown", True)


def sent_twice(owner, *, first_is_gone=False, key="k"):
    """An idempotent call whose first holder was lost, and whose second one gave up waiting."""
    run = a_run(owner)
    a_dispatch(run, a_claim(run), key=key, effect="idempotent")
    if first_is_gone:
        decide(claims.mark_holder_gone(worker="worker-a", proof={"exit": 0}), ring=silent)
    expire(run)
    fence = a_claim(run, "worker-b")
    an_outcome(run, fence, a_dispatch(run, fence, key=key, effect="idempotent", worker="worker-b"), "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    operation = Operation.objects.get(run=run)
    past_horizon(operation)
    return operation


def test_not_happened_is_not_believed_while_the_holder_of_an_older_try_may_still_send(owner):
    operation = sent_twice(owner)
    assert (operation.holder_gone_at is not None, operation.is_ambiguous) == (True, True)
    assert settle(operation, False).reason == "not_yet"
    assert decide(claims.mark_holder_gone(worker="worker-a", proof={"exit": 0}), ring=silent) == 1
    assert decide(claims.mark_holder_gone(worker="worker-a", proof={"exit": 0}), ring=silent) == 0
    assert isinstance(settle(operation, False), operations.Settled)


def test_not_happened_counts_when_the_holder_of_the_older_try_was_seen_to_end_before(owner):
    assert isinstance(settle(sent_twice(owner, first_is_gone=True), False), operations.Settled)


def test_evidence_without_detail_is_evidence_all_the_same(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    decide(
        operations.record_evidence(
            operation_id=sent.operation_id, fence=fence, kind="receipt", happened=True, detail={}
        ),
        ring=silent,
    )
    expire(run)
    new = a_claim(run, "worker-b")
    taken = operations.mark_unknown(run_id=run.pk, fence=new, operation_id=sent.operation_id, message="m")
    assert decide(taken, ring=silent) is True
    run.refresh_from_db()
    assert (run.open_ops, run.unknown_ops) == (0, 0)


def test_other_evidence_and_the_strays_of_others_do_not_bar_a_verdict(owner):
    sent_twice(owner, key="of another operation")
    _, operation = parked(owner)
    past_horizon(operation)
    learnt = operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="look_up", happened=None, detail={}
    )
    decide(learnt, ring=silent)
    assert isinstance(settle(operation, False), operations.Settled)


def test_the_exit_of_another_holder_or_of_another_operation_clears_no_stray(owner):
    operation, other = sent_twice(owner), sent_twice(owner, key="of another operation")
    for learnt in (
        insert_evidence(operation.pk, operation.fence, "exit", None, {}),
        insert_evidence(other.pk, 1, "exit", None, {}),
        insert_evidence(operation.pk, 1, "look_up", None, {}),
    ):
        decide(learnt, ring=silent)
    assert settle(operation, False).reason == "not_yet"


@pytest.mark.parametrize("state", ["intended", "dispatched", "succeeded", "failed", "refuted", "confirmed"])
def test_only_what_is_unknown_is_settled(owner, state):
    _, operation = parked(owner)
    Operation.objects.filter(pk=operation.pk).update(state=state)
    assert settle(operation, True, override=True).reason == "decided"
    operation.refresh_from_db()
    assert operation.state == state


def test_a_verdict_changes_the_attempt_of_its_own_run_alone(owner):
    other, _ = parked(owner)
    run, operation = parked(owner, has_result=True)
    settle(operation, True)
    statuses = dict(Attempt.objects.values_list("run_id", "status"))
    assert statuses == {run.pk: "completed", other.pk: "needs_reconciliation"}
