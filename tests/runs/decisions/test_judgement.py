"""The judgement of a stopped run's open operations: by evidence of their own dispatch, else nobody knows."""

import pytest

from runs.database import decide
from runs.decisions.operations import record_evidence
from runs.models import Operation
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_cancels import end, stop
from tests.runs.decisions.test_claims import expire


@pytest.mark.parametrize("evidence", [{"fence": 0}, {"happened": False}, {"happened": None}])
def test_evidence_of_another_dispatch_or_of_nothing_commits_nothing(owner, evidence):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    sent, kept = a_dispatch(run, fence), a_dispatch(other, a_claim(other))
    stop(run)
    expire(run)
    fields = {"fence": fence, "happened": True} | evidence
    decide(record_evidence(operation_id=sent.operation_id, kind="receipt", detail={}, **fields), ring=silent)
    assert end(run).status == Status.NEEDS_RECONCILIATION
    judged = Operation.objects.get(pk=sent.operation_id)
    assert (judged.state, judged.version, judged.next_look_up_at is None) == ("unknown", 2, False)
    assert Operation.objects.get(pk=kept.operation_id).state == "dispatched"


def test_a_judged_receipt_is_the_operations_receipt(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    stop(run)
    expire(run)
    proof = record_evidence(
        operation_id=sent.operation_id, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
    )
    decide(proof, ring=silent)
    end(run)
    judged = Operation.objects.get(pk=sent.operation_id)
    assert (judged.state, judged.receipt, judged.next_look_up_at) == ("succeeded", {"proof": "http 201"}, None)


def test_a_receipt_of_one_operation_says_nothing_of_another(owner):
    run = a_run(owner)
    fence = a_claim(run)
    proven, bare = a_dispatch(run, fence, path="1"), a_dispatch(run, fence, path="2")
    stop(run)
    expire(run)
    proof = record_evidence(
        operation_id=proven.operation_id, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
    )
    decide(proof, ring=silent)
    assert end(run).status == Status.NEEDS_RECONCILIATION
    states = dict(Operation.objects.values_list("pk", "state"))
    assert states == {proven.operation_id: "succeeded", bare.operation_id: "unknown"}


def test_what_has_its_outcome_is_not_judged_again(owner):
    run = a_run(owner)
    fence = a_claim(run)
    settled = {state: a_dispatch(run, fence, path=state) for state in ("succeeded", "failed", "refuted")}
    for state, sent in settled.items():
        an_outcome(run, fence, sent, state)
    a_dispatch(run, fence)
    stop(run)
    expire(run)
    assert end(run).status == Status.NEEDS_RECONCILIATION
    for state, sent in settled.items():
        assert Operation.objects.get(pk=sent.operation_id).state == state
