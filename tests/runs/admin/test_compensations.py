"""Undoing an effect from the operators' desk."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.access import Actor
from runs.database import decide
from runs.decisions import compensations
from runs.models import Compensation, Operation
from runs.states import OperationState
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent


@pytest.fixture
def done(owner: Actor) -> Operation:
    """An invoice that was made."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "succeeded")
    return Operation.objects.get(pk=sent.operation_id)


def ask(client: Client, operation: Operation, **changes: Any) -> Any:
    said = {"note": "a mistake", "version": operation.version} | changes
    return client.post(reverse("admin:runs_compensation_ask", args=[operation.pk]), said)


def test_the_operation_leads_to_it_and_the_page_says_what_it_is(as_operator: Client, done: Operation) -> None:
    address = reverse("admin:runs_compensation_ask", args=[done.pk])
    assert address in as_operator.get(reverse("admin:runs_operation_change", args=[done.pk])).content.decode()
    page = as_operator.get(address).content.decode()
    assert done.key in page
    assert "It can fail" in page


def test_an_operator_has_it_undone_on_record(as_operator: Client, operator: Actor, done: Operation) -> None:
    answer = ask(as_operator, done)
    made = Compensation.objects.get()
    assert answer.headers["Location"] == reverse("admin:runs_compensation_change", args=[made.pk])
    assert (made.requested_by, made.note, made.state) == (operator.user, "a mistake", "intended")
    assert "a mistake" in as_operator.get(answer.headers["Location"]).content.decode()
    again = ask(as_operator, done).content.decode()
    assert "It is being undone already" in again


@pytest.mark.parametrize(("changes", "said"), [({"note": " "}, "required"), ({"version": 99}, "changed this")])
def test_what_is_refused_changes_nothing(
    as_operator: Client, done: Operation, changes: dict[str, Any], said: str
) -> None:
    assert said in ask(as_operator, done, **changes).content.decode()
    assert not Compensation.objects.exists()


def test_an_operator_decides_what_nobody_knows(as_operator: Client, operator: Actor, done: Operation) -> None:
    ask(as_operator, done)
    made = Compensation.objects.get()
    settle = reverse("admin:runs_compensation_settle", args=[made.pk])
    page = reverse("admin:runs_compensation_change", args=[made.pk])
    assert settle not in as_operator.get(page).content.decode()
    decide(compensations.begin(compensation_id=made.pk, bound_seconds=60), ring=silent)
    decide(compensations.finish(compensation_id=made.pk, state=OperationState.UNKNOWN, receipt={}), ring=silent)
    made.refresh_from_db()
    assert settle in as_operator.get(page).content.decode()
    as_operator.post(settle, {"outcome": "not_happened", "note": "still valid there", "version": made.version})
    made.refresh_from_db()
    assert (made.state, made.settled_by, made.settle_note) == ("refuted", operator.user, "still valid there")


def test_a_stranger_sees_nothing_of_it(outsider: Actor, desk: Any, done: Operation) -> None:
    client = desk(outsider)
    assert client.get(reverse("admin:runs_compensation_ask", args=[done.pk])).status_code == 403
    assert client.get("/admin/runs/compensation/of/00000000-0000-0000-0000-000000000000/").status_code == 404
