"""Ending a run without waiting, over HTTP: an operator's word, once, on record."""

from runs.api.schemas import CancelReceiptOut
from runs.database import decide
from runs.decisions import endings
from runs.models import AuditEntry, Run
from runs.states import Status
from tests.builders import a_claim, a_dispatch, silent
from tests.runs.api.conftest import Caller, error_of, make_caller
from tests.runs.api.test_runs import stored


def a_busy_run(owner: Caller) -> tuple[str, Run]:
    made = owner.create()
    run = stored(made)
    a_dispatch(run, a_claim(run))
    return f"/runs/{made['id']}/force_stop", run


def test_an_operator_ends_a_run_and_what_has_no_proof_is_named(owner: Caller, operator: Caller) -> None:
    path, _run = a_busy_run(owner)
    response = operator.post(path, {"note": "its target hangs"})
    assert response.status_code == 200
    receipt = response.json()
    CancelReceiptOut.model_validate(receipt)
    assert (receipt["status"], receipt["reason"], receipt["by"]) == ("needs_reconciliation", "operator", "operator")
    assert [effect["outcome"] for effect in receipt["effects"]] == ["unknown"]
    assert len(receipt["run"]["unsettled_operations"]) == 1
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.user, entry.subject) == ("run.force_stop", operator.actor.user, receipt["run"]["id"])
    assert entry.detail == {"note": "its target hangs", "status": "needs_reconciliation"}


def test_again_it_is_the_same_answer_and_one_line_of_the_audit(owner: Caller, operator: Caller) -> None:
    path, _run = a_busy_run(owner)
    first = operator.post(path).json()
    again = operator.post(path, {"note": "once more"})
    assert (again.status_code, again.json()) == (200, first)
    assert AuditEntry.objects.count() == 1


def test_who_is_no_operator_is_refused_and_nothing_changes(owner: Caller, teammate: Caller, viewer: Caller) -> None:
    path, run = a_busy_run(owner)
    for caller in (owner, teammate, viewer):
        response = caller.post(path)
        assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
        assert error_of(response)["details"] == {"action": "run.force_stop"}
    assert Run.objects.get(pk=run.pk).status == "running"
    assert not AuditEntry.objects.exists()


def test_a_token_without_the_scope_is_refused(owner: Caller, tenant) -> None:  # type: ignore[no-untyped-def]
    path, run = a_busy_run(owner)
    other = make_caller("half", tenant, "operator", scopes=["runs:read", "runs:write", "operations:settle"])
    assert other.post(path).status_code == 403
    assert Run.objects.get(pk=run.pk).status == "running"


def test_another_tenants_admin_finds_no_such_run(owner: Caller, outsider: Caller) -> None:
    path, run = a_busy_run(owner)
    response = outsider.post(path)
    assert (response.status_code, error_of(response)["code"]) == (404, "not_found")
    assert Run.objects.get(pk=run.pk).status == "running"


def test_after_the_end_it_is_too_late_and_no_conflict(owner: Caller, operator: Caller) -> None:
    made = owner.create()
    run = stored(made)
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result="done"), ring=silent)
    response = operator.post(f"/runs/{made['id']}/force_stop")
    assert (response.status_code, response.json()["too_late"], response.json()["status"]) == (200, True, "completed")
    assert not AuditEntry.objects.exists()
