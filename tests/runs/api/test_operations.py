"""The ledger over HTTP: what is unknown, and a person's verdict with If-Match."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.api.ledger_schemas import OperationOut
from runs.api.schemas import ListOut
from runs.database import decide
from runs.decisions import endings
from runs.decisions.operations import record_evidence
from runs.ids import parse_id, text_id
from runs.models import Operation, Run
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.runs.api.conftest import Caller, error_of


def an_unknown_operation(caller: Caller) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let a run be parked on a write whose answer was lost; nothing of it can land any more."""
    run = caller.create()
    row = Run.objects.get(pk=parse_id("run", run["id"]))
    fence = a_claim(row)
    sent = a_dispatch(row, fence)
    an_outcome(row, fence, sent, "unknown")
    ended = decide(endings.park(run_id=row.pk, fence=fence), ring=silent)
    assert isinstance(ended, endings.Ended), ended
    assert sent.operation_id is not None
    past = timezone.now() - timedelta(hours=1)
    Operation.objects.filter(pk=sent.operation_id).update(send_by=past, horizon_at=past, holder_gone_at=past)
    return run, caller.get(f"/operations/{text_id('op', sent.operation_id)}").json()


def test_unknown_operations_are_listed_and_named_by_their_run(owner: Caller) -> None:
    run, operation = an_unknown_operation(owner)
    owner.create()
    page = owner.get("/operations?state=unknown").json()
    ListOut[OperationOut].model_validate(page)
    assert page["data"] == [operation]
    assert owner.get(f"/operations?run_id={run['id']}").json()["data"] == [operation]
    assert owner.get("/operations?state=succeeded").json()["data"] == []
    whole = owner.get(f"/runs/{run['id']}").json()
    assert (whole["status"], whole["unsettled_operations"]) == ("needs_reconciliation", [operation["id"]])
    assert owner.get("/runs?status=needs_reconciliation").json()["data"] == [whole]


@pytest.mark.parametrize(("outcome", "state"), [("happened", "confirmed"), ("not_happened", "refuted")])
def test_a_verdict_settles_the_operation_and_its_run(owner: Caller, operator: Caller, outcome: str, state: str) -> None:
    run, operation = an_unknown_operation(owner)
    path = f"/operations/{operation['id']}"
    etag = operator.get(path)["ETag"]
    assert etag == f'"{operation["version"]}"'
    response = operator.post(f"{path}/settle", {"outcome": outcome, "note": "saw it"}, if_match=etag)
    assert response.status_code == 200, response.content
    settled = response.json()
    OperationOut.model_validate(settled)
    assert (settled["state"], settled["settled_by"], settled["settle_note"]) == (state, "operator", "saw it")
    assert response["ETag"] == f'"{settled["version"]}"' != etag
    whole = owner.get(f"/runs/{run['id']}").json()
    assert whole["unsettled_operations"] == []
    assert whole["status"] == "failed"
    again = operator.post(f"{path}/settle", {"outcome": "not_happened", "note": "no"}, if_match=etag)
    assert again.status_code == 412
    assert error_of(again)["code"] == "stale_version"
    assert operator.get(path).json() == settled


def test_not_happened_before_the_horizon_is_409_with_the_time(owner: Caller, operator: Caller) -> None:
    _run, operation = an_unknown_operation(owner)
    soon = timezone.now() + timedelta(minutes=5)
    Operation.objects.update(horizon_at=soon)
    path = f"/operations/{operation['id']}/settle"
    response = operator.post(path, {"outcome": "not_happened", "note": "x"}, if_match=f'"{operation["version"]}"')
    assert response.status_code == 409
    error = error_of(response)
    assert (error["code"], error["details"]["horizon_at"]) == ("not_yet", soon.isoformat())


@pytest.mark.parametrize("if_match", [None, "", "x", '"x"', "*", 'W/"1"', '"1", "2"'])
def test_a_missing_or_malformed_if_match_is_400(owner: Caller, operator: Caller, if_match: str | None) -> None:
    _run, operation = an_unknown_operation(owner)
    headers = {} if if_match is None else {"if_match": if_match}
    path = f"/operations/{operation['id']}/settle"
    response = operator.post(path, {"outcome": "happened", "note": "x"}, **headers)
    assert response.status_code == 400
    assert error_of(response)["param"] == "If-Match"
    assert Operation.objects.get().state == "unknown"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"note": "x"}, "outcome"),
        ({"outcome": "maybe", "note": "x"}, "outcome"),
        ({"outcome": "happened"}, "note"),
        ({"outcome": "happened", "note": ""}, "note"),
        ({"outcome": "happened", "note": "  "}, "note"),
        ({"outcome": "happened", "note": "a\x00"}, "note"),
        ({"outcome": "happened", "note": "x", "override": "yes"}, "override"),
        ({"outcome": "happened", "note": "x", "evidence_id": "evid_1"}, "evidence_id"),
    ],
)
def test_a_wrong_verdict_is_400_and_named(owner: Caller, operator: Caller, body: Any, param: str) -> None:
    _run, operation = an_unknown_operation(owner)
    response = operator.post(f"/operations/{operation['id']}/settle", body, if_match='"1"')
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert Operation.objects.get().state == "unknown"


def test_only_an_operator_of_the_same_workspace_may_settle(owner: Caller, outsider: Caller) -> None:
    _run, operation = an_unknown_operation(owner)
    body = {"outcome": "happened", "note": "x"}
    path = f"/operations/{operation['id']}"
    assert owner.post(f"{path}/settle", body, if_match='"1"').status_code == 403
    assert outsider.post(f"{path}/settle", body, if_match='"1"').status_code == 404
    assert outsider.get(path).status_code == 404
    assert outsider.get("/operations").json()["data"] == []
    assert Operation.objects.get().state == "unknown"


@pytest.mark.parametrize("operation_id", ["op_", "x", "op_" + "0" * 32, "run_" + "0" * 32])
def test_a_malformed_or_unknown_operation_is_404(operator: Caller, operation_id: str) -> None:
    assert operator.get(f"/operations/{operation_id}").status_code == 404
    response = operator.post(f"/operations/{operation_id}/settle", {"outcome": "happened", "note": "x"}, if_match='"1"')
    assert response.status_code == 404


def test_a_wrong_state_or_run_in_the_query_is_named(owner: Caller) -> None:
    assert error_of(owner.get("/operations?state=lost"))["param"] == "state"
    assert error_of(owner.get("/operations?run_id=run_x"))["code"] == "not_found"


def test_a_contradicted_operation_is_settled_anew_and_its_run_can_be_retried(owner: Caller, operator: Caller) -> None:
    run, operation = an_unknown_operation(owner)
    path = f"/operations/{operation['id']}"
    no = {"outcome": "not_happened", "note": "not there"}
    assert operator.post(f"{path}/settle", no, if_match=operator.get(path)["ETag"]).status_code == 200
    row = Operation.objects.get(pk=parse_id("op", operation["id"]))
    late = record_evidence(operation_id=row.pk, fence=row.fence, kind="receipt", happened=True, detail={})
    decide(late, ring=silent)
    refused = owner.post(f"/runs/{run['id']}/attempts")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "operation_contradicted")
    yes = {"outcome": "happened", "note": "the receipt is right"}
    settled = operator.post(f"{path}/settle", yes, if_match=operator.get(path)["ETag"])
    assert (settled.status_code, settled.json()["state"], settled.json()["contradicted_at"]) == (200, "confirmed", None)
    assert owner.post(f"/runs/{run['id']}/attempts").status_code == 201


def test_an_operator_has_the_target_asked_again(owner: Caller, operator: Caller, outsider: Caller) -> None:
    _run, operation = an_unknown_operation(owner)
    Operation.objects.update(next_look_up_at=None)
    path = f"/operations/{operation['id']}/lookup"
    assert owner.post(path, {}).status_code == 403
    assert outsider.post(path, {}).status_code == 404
    assert Operation.objects.get().next_look_up_at is None
    answer = operator.post(path, {})
    assert answer.status_code == 202
    assert answer.json()["state"] == "unknown"
    assert Operation.objects.get().next_look_up_at is not None


@pytest.mark.parametrize(
    ("change", "code"),
    [({"state": "confirmed"}, "operation_decided"), ({"can_look_up": False}, "cannot_look_up")],
)
def test_what_cannot_be_looked_up_is_409(owner: Caller, operator: Caller, change: Any, code: str) -> None:
    _run, operation = an_unknown_operation(owner)
    Operation.objects.update(**change)
    answer = operator.post(f"/operations/{operation['id']}/lookup", {})
    assert (answer.status_code, error_of(answer)["code"]) == (409, code)
