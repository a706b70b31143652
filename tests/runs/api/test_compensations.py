"""Undoing an effect over HTTP."""

from typing import Any

import pytest

from runs.access import issue_token
from runs.api.ledger_schemas import CompensationOut
from runs.api.schemas import ListOut
from runs.database import decide
from runs.decisions import compensations
from runs.ids import parse_id, text_id
from runs.models import AuditEntry, Operation, Run
from runs.states import OperationState
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.runs.api.conftest import Caller, error_of

NOTE = {"note": "sent to the wrong customer"}


@pytest.fixture
def done(owner: Caller, operator: Caller) -> dict[str, Any]:
    """An operation that succeeded, as the operator reads it."""
    run = Run.objects.get(pk=parse_id("run", owner.create()["id"]))
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "succeeded")
    assert sent.operation_id is not None
    found: dict[str, Any] = operator.get(f"/operations/{text_id('op', sent.operation_id)}").json()
    return found


def ask(caller: Caller, operation: dict[str, Any], body: Any = NOTE, **headers: str) -> Any:
    headers = {"if_match": f'"{operation["version"]}"'} | headers
    return caller.post(f"/operations/{operation['id']}/compensations", body, **headers)


def test_an_operator_asks_once_and_reads_what_became_of_it(operator: Caller, done: dict[str, Any]) -> None:
    response = ask(operator, done)
    assert response.status_code == 201, response.content
    made = response.json()
    CompensationOut.model_validate(made)
    assert (made["state"], made["note"], made["requested_by"]) == ("intended", NOTE["note"], "operator")
    again = ask(operator, done)
    assert (again.status_code, error_of(again)["code"]) == (409, "already_compensated")
    assert error_of(again)["details"] == {"compensation_id": made["id"]}
    page = operator.get(f"/operations/{done['id']}/compensations").json()
    ListOut[CompensationOut].model_validate(page)
    assert page["data"] == [made] == [operator.get(f"/compensations/{made['id']}").json()]
    assert [(e.action, e.subject) for e in AuditEntry.objects.all()] == [("operation.compensate", made["id"])]


def test_it_needs_an_operator_and_a_scope_of_its_own(owner: Caller, operator: Caller, done: dict[str, Any]) -> None:
    assert ask(owner, done).status_code == 403
    actor = operator.actor
    token = issue_token(user=actor.user, tenant=actor.tenant, name="x", scopes=["runs:read", "operations:settle"])[1]
    assert ask(Caller(actor, token, operator.client), done).status_code == 403


def test_a_foreign_operation_is_not_found(outsider: Caller, done: dict[str, Any]) -> None:
    assert ask(outsider, done).status_code == 404
    assert outsider.get(f"/operations/{done['id']}/compensations").status_code == 404


@pytest.mark.parametrize(
    ("changes", "body", "status", "code"),
    [
        ({}, {"note": " "}, 400, "invalid_input"),
        ({}, {}, 400, "invalid_input"),
        ({"if_match": '"99"'}, NOTE, 412, "stale_version"),
        ({"if_match": "*"}, NOTE, 400, "invalid_request"),
    ],
)
def test_what_is_refused(
    operator: Caller, done: dict[str, Any], changes: dict[str, str], body: Any, status: int, code: str
) -> None:
    refused = ask(operator, done, body, **changes)
    assert (refused.status_code, error_of(refused)["code"]) == (status, code)


def test_a_tool_that_cannot_undo_says_so(operator: Caller, done: dict[str, Any]) -> None:
    Operation.objects.update(tool="send_mail")
    refused = ask(operator, done)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "cannot_compensate")


def test_what_did_not_happen_cannot_be_undone(operator: Caller, done: dict[str, Any]) -> None:
    Operation.objects.update(state="failed")
    refused = ask(operator, done)
    assert (refused.status_code, error_of(refused)["code"]) == (409, "not_committed")


def test_what_nobody_knows_is_decided_on_record(operator: Caller, owner: Caller, done: dict[str, Any]) -> None:
    made = ask(operator, done).json()
    path = f"/compensations/{made['id']}/settle"
    verdict = {"outcome": "happened", "note": "it is void in their list"}
    early = operator.post(path, verdict, if_match='"1"')
    assert (early.status_code, error_of(early)["code"]) == (409, "not_unknown")
    pk = parse_id("comp", made["id"])
    decide(compensations.begin(compensation_id=pk, bound_seconds=60), ring=silent)
    decide(compensations.finish(compensation_id=pk, state=OperationState.UNKNOWN, receipt={}), ring=silent)
    etag = operator.get(f"/compensations/{made['id']}")["ETag"]
    assert owner.post(path, verdict, if_match=etag).status_code == 403
    assert operator.post(path, verdict, if_match='"1"').status_code == 412
    settled = operator.post(path, verdict, if_match=etag).json()
    assert (settled["state"], settled["settled_by"]) == ("confirmed", "operator")
    assert operator.get("/compensations/comp_" + "0" * 32).status_code == 404
