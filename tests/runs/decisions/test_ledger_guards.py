"""Each guard of a dispatch, an outcome and a verdict by itself, and what each of them writes in the ledger."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.conf import limits
from runs.database import decide
from runs.decisions import claims, dispatch, endings, operations, steps
from runs.decisions.dispatch import OperationCall, StepCall
from runs.ids import new_id
from runs.models import Evidence, Operation, Run, Step
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of
from tests.runs.decisions.test_operations import parked, past_horizon, settle


def try_dispatch(
    run: Run, fence: int, *, effect: str = "idempotent", is_process: bool = False, bound: float = 0.0
) -> Any:
    call = StepCall("1", "tool", "create_invoice", {"cents": 1}, "d" * 64, effect)
    operation = None if effect == "read" else OperationCall("k", is_process, True, bound)
    return decide(
        dispatch.dispatch(
            run_id=run.pk, fence=fence, worker="worker-b", step=call, nonce=new_id(), operation=operation
        ),
        ring=silent,
    )  # fmt: skip


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_lost_fence_dispatches_nothing(owner, effect):
    run = a_run(owner)
    fence = a_claim(run)
    assert try_dispatch(run, fence - 1, effect=effect) == dispatch.Refused("lost")
    assert not Step.objects.exists()


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_deadline_that_has_passed_stops_every_call(owner, effect):
    run = a_run(owner)
    fence = a_claim(run)
    Run.objects.filter(pk=run.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    assert try_dispatch(run, fence, effect=effect) == dispatch.Refused("deadline")
    Run.objects.filter(pk=run.pk).update(deadline_at=None)
    assert isinstance(try_dispatch(run, fence, effect=effect), dispatch.Dispatched)


def test_a_process_is_never_started_again_in_place_of_one_without_proof(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), key="k", effect="idempotent", is_process=True)
    expire(run)
    assert isinstance(try_dispatch(run, a_claim(run, "worker-b"), is_process=True), dispatch.InOperation)


@pytest.mark.parametrize("state", ["succeeded", "confirmed", "unknown"])
def test_what_has_happened_or_may_have_is_not_sent_again(owner, state):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k", effect="idempotent")
    Operation.objects.update(state=state)
    assert isinstance(try_dispatch(run, fence), dispatch.InOperation)


@pytest.mark.parametrize("state", ["refuted", "failed"])
def test_what_has_not_happened_is_sent_again_under_a_new_permit(owner, state):
    run = a_run(owner)
    fence = a_claim(run)
    first = a_dispatch(run, fence, key="k", effect="idempotent", bound=3600.0)
    outcome = steps.OperationOutcome(state, {"retryable": True, "error": "e"}, gave_up=True)
    done = steps.finish_step(run_id=run.pk, fence=fence, step_id=first.step_id, state="failed", outcome=outcome)
    decide(done, ring=silent)
    old = Operation.objects.get()
    assert (old.state, old.gave_up, old.holder_gone_at is None) == (state, True, False)
    assert isinstance(try_dispatch(run, fence, bound=1.0), dispatch.Dispatched)
    new = Operation.objects.get()
    assert (new.state, new.version, new.fence, new.worker) == ("dispatched", old.version + 1, fence, "worker-b")
    assert (new.gave_up, new.holder_gone_at, new.receipt, new.is_ambiguous) == (False, None, None, False)
    assert new.nonce != old.nonce
    assert new.dispatched_at > old.dispatched_at
    assert (new.send_by - new.dispatched_at).total_seconds() == pytest.approx(limits().permit_seconds)
    assert new.horizon_at == old.horizon_at  # the first request may still be under way until then
    assert Run.objects.get(pk=run.pk).open_ops == 1


def test_a_doubt_about_an_older_try_stays_with_the_operation(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, key="k", effect="idempotent")
    Operation.objects.update(is_ambiguous=True, state="refuted")
    Run.objects.filter(pk=run.pk).update(open_ops=0)
    try_dispatch(run, fence)
    assert Operation.objects.get().is_ambiguous


def test_a_try_whose_holder_was_seen_to_end_is_no_stray(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), key="k", effect="idempotent")
    decide(claims.mark_holder_gone(worker="worker-a", proof={}), ring=silent)
    expire(run)
    try_dispatch(run, a_claim(run, "worker-b"))
    assert set(Evidence.objects.values_list("kind", flat=True)) == {"exit"}


def test_a_permit_is_only_one_while_its_call_is_out(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, key="k")
    an_outcome(run, fence, sent, "succeeded")
    assert decide(dispatch.whose_permit(key="k", nonce=sent.nonce), ring=silent) is False


@pytest.mark.parametrize("state", ["failed", "refuted"])
def test_a_first_refusal_is_believed(owner, state):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    assert an_outcome(run, fence, sent, state) == steps.Done(state)
    operation = Operation.objects.get()
    assert (operation.state, operation.version, operation.receipt) == (state, 2, {"proof": "test"})
    assert (operation.gave_up, operation.next_look_up_at) == (True, None)


def test_a_success_after_a_try_without_receipt_is_a_success(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), key="k", effect="idempotent")
    expire(run)
    fence = a_claim(run, "worker-b")
    sent = a_dispatch(run, fence, key="k", effect="idempotent")
    assert an_outcome(run, fence, sent, "succeeded") == steps.Done("succeeded")


def test_a_holder_that_has_not_given_up_is_not_gone_and_is_looked_up_soon(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown", gave_up=False)
    operation = Operation.objects.get()
    assert (operation.gave_up, operation.holder_gone_at) == (False, None)
    assert operation.next_look_up_at is not None


def test_only_a_newer_holder_calls_a_dispatch_unknown_and_only_its_own_runs(owner):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    elsewhere = a_dispatch(other, a_claim(other))
    expire(other)
    others = a_claim(other, "worker-b")

    def mark(one: Run, fence: int, operation_id: Any) -> Any:
        return decide(
            operations.mark_unknown(run_id=one.pk, fence=fence, operation_id=operation_id, message="m"), ring=silent
        )

    assert mark(run, fence, sent.operation_id) is False
    assert Operation.objects.get(pk=sent.operation_id).state == "dispatched"  # by its own holder: it has to say so
    assert mark(other, others - 1, elsewhere.operation_id) == claims.Lost()
    expire(run)
    new = a_claim(run, "worker-b")
    assert mark(run, new, elsewhere.operation_id) is False
    assert mark(run, new, sent.operation_id) is False
    run.refresh_from_db()
    operation = Operation.objects.get(pk=sent.operation_id)
    assert (operation.state, operation.version, run.open_ops, run.unknown_ops) == ("unknown", 2, 0, 1)
    assert operation.next_look_up_at is not None
    assert mark(run, new, sent.operation_id) is False  # it is not dispatched any more
    assert types_of(run).count("tool.unknown") == 1
    assert Operation.objects.get(pk=elsewhere.operation_id).state == "dispatched"


@pytest.mark.parametrize("evidence", [{"fence": 0}, {"happened": False}])
def test_evidence_of_an_older_try_or_of_nothing_is_no_receipt_for_a_new_holder(owner, evidence):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    fields = {"fence": fence, "happened": True, "kind": "look_up", "detail": {}} | evidence
    decide(operations.record_evidence(operation_id=sent.operation_id, **fields), ring=silent)
    expire(run)
    new = a_claim(run, "worker-b")
    marked = operations.mark_unknown(run_id=run.pk, fence=new, operation_id=sent.operation_id, message="m")
    assert decide(marked, ring=silent) is False


CONTRADICTED = [
    ("refuted", True, "receipt", True), ("failed", True, "receipt", True), ("succeeded", True, "receipt", False),
    ("succeeded", False, "look_up", True), ("confirmed", False, "look_up", True), ("refuted", False, "look_up", False),
    ("succeeded", False, "refusal", False), ("succeeded", None, "exit", False), ("unknown", True, "receipt", False),
]  # fmt: skip


@pytest.mark.parametrize(("state", "happened", "kind", "is_flagged"), CONTRADICTED)
def test_evidence_against_a_decision_is_flagged_and_only_that(owner, state, happened, kind, is_flagged):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    Operation.objects.update(state=state)

    def learn(of_fence: int) -> Operation:
        known = operations.record_evidence(
            operation_id=sent.operation_id, fence=of_fence, kind=kind, happened=happened, detail={}
        )
        decide(known, ring=silent)
        return Operation.objects.get()

    assert learn(fence + 1).contradicted_at is None
    flagged = learn(fence)
    assert (flagged.state, flagged.contradicted_at is not None) == (state, is_flagged)
    is_receipt_in_doubt = state == "unknown"  # each one adds to the version, that no verdict overlooks it
    assert flagged.version == (3 if is_receipt_in_doubt else 2 if is_flagged else 1)
    assert learn(fence).contradicted_at == flagged.contradicted_at
    assert (flagged.next_look_up_at is not None) == (state == "unknown")


def test_a_verdict_is_kept_with_who_when_and_why(owner, operator):
    run, operation = parked(owner)
    operations_due = operations.plan_look_up(operation_id=operation.pk, seconds=5.0)
    decide(operations_due, ring=silent)
    settle(operation, True, by=operator.user.pk, by_name="operator", note="seen")
    settled = Operation.objects.get(pk=operation.pk)
    assert (settled.state, settled.version, settled.settled_by_id) == (
        "confirmed",
        operation.version + 1,
        operator.user.pk,
    )
    assert (settled.settle_note, settled.next_look_up_at, settled.receipt) == ("seen", None, {"proof": "test"})
    assert settled.settled_at is not None
    run.refresh_from_db()
    assert (run.error_code, run.attempts.get().status) == ("interrupted", "failed")


def test_did_not_happen_leaves_the_receipt(owner):
    _, operation = parked(owner)
    past_horizon(operation)
    receipt = Operation.objects.get(pk=operation.pk).receipt
    settle(operation, False)
    assert Operation.objects.get(pk=operation.pk).receipt == receipt


@pytest.mark.parametrize("kind", [{"cancel": True}, {"has_result": True}])
def test_a_run_that_is_reconciled_well_has_no_error(owner, kind):
    run, operation = parked(owner, **kind)
    settle(operation, True)
    run.refresh_from_db()
    assert (run.error_code, run.error_message) == (None, None)


def test_an_operation_is_settled_while_its_run_goes_on(owner):
    run = a_run(owner)
    fence = a_claim(run)
    first, second = a_dispatch(run, fence, path="1", key="k"), a_dispatch(run, fence, path="2")
    an_outcome(run, fence, first, "unknown")
    settled = settle(Operation.objects.get(pk=first.operation_id), True)
    assert settled.run_status == Status.RUNNING
    run.refresh_from_db()
    assert (run.status, run.fence, run.open_ops, run.unknown_ops) == (Status.RUNNING, fence, 1, 0)
    done = steps.finish_step(run_id=run.pk, fence=fence, step_id=first.step_id, state="finished", result="r")
    assert isinstance(decide(done, ring=silent), steps.Done)
    an_outcome(run, fence, second, "succeeded")
    run.refresh_from_db()
    assert run.open_ops == 0
    finish = endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED)
    assert isinstance(decide(finish, ring=silent), endings.Ended)


def test_a_look_up_is_planned_only_for_what_is_unknown(owner):
    _, operation = parked(owner)
    decide(operations.plan_look_up(operation_id=operation.pk, seconds=60.0), ring=silent)
    planned = Operation.objects.get(pk=operation.pk)
    assert planned.look_ups == 1
    assert planned.next_look_up_at > timezone.now() + timedelta(seconds=50)
    settle(planned, True)
    decide(operations.plan_look_up(operation_id=operation.pk, seconds=60.0), ring=silent)
    assert Operation.objects.get(pk=operation.pk).next_look_up_at is None


def test_the_tokens_of_all_calls_add_up(owner):
    run = a_run(owner)
    fence = a_claim(run)
    for path in "12":
        sent = a_dispatch(run, fence, path=path, kind="model")
        usage = {"input_tokens": 3, "output_tokens": 5}
        done = steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished", usage=usage)
        decide(done, ring=silent)
    run.refresh_from_db()
    assert (run.input_tokens, run.output_tokens) == (6, 10)
    step = Step.objects.get(pk=sent.step_id)
    assert (step.usage, step.message_id, step.finished_at is None) == (usage, None, False)
    assert types_of(run)[-4:] == ["text.end", "model.finished", "usage", "step.finished"]
