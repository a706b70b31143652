"""Sending a compensation to the real demo target, with all that can go wrong on the way."""

from typing import Any

import pytest
from django.db import connection

from runs.compensating import compensate_operation
from runs.database import decide
from runs.decisions import compensations
from runs.models import Compensation, Operation
from runs.supervisor import compensating
from runs.supervisor.compensating import compensate_once
from runs.supervisor.sweeps import sweep_once
from runs.testing.lab import Outlive


@pytest.fixture
def invoice(outlive: Outlive) -> Operation:
    """An invoice that a run has made."""
    outlive.model.says("An invoice for Ada.")
    outlive.run("billing", {"customer": "Ada", "cents": 1250})
    return Operation.objects.get()


def ask(outlive: Outlive, invoice: Operation) -> Compensation:
    return compensate_operation(actor=outlive.actor, operation_id=invoice.pk, version=invoice.version, note="a mistake")


def voids(outlive: Outlive) -> int:
    return sum(count for key, count in outlive.target.effects.items() if key.startswith("comp:"))


def test_it_is_sent_once_under_its_own_key(outlive: Outlive, invoice: Operation) -> None:
    made = ask(outlive, invoice)
    assert compensate_once() == 1
    assert compensate_once() == 0
    made.refresh_from_db()
    assert (made.state, made.receipt["value"]["voided"]) == ("succeeded", True)
    assert outlive.target.effects == {invoice.key: 1, made.key: 1}


@pytest.mark.parametrize(
    ("switches", "state", "sent"),
    [
        ({"refuse": True}, "failed", 0),
        ({"drop_after_commit": True}, "unknown", 1),
        ({"fail_after_effect": True}, "unknown", 1),
    ],
)  # fmt: skip
def test_an_ugly_target(outlive: Outlive, invoice: Operation, switches: dict[str, Any], state: str, sent: int) -> None:
    made = ask(outlive, invoice)
    outlive.target.behave(**switches)
    compensate_once()
    made.refresh_from_db()
    assert (made.state, voids(outlive)) == (state, sent)
    outlive.target.behave()
    assert compensate_once() == 0  # whatever came of it, it is never sent again by itself
    assert voids(outlive) == sent


def test_a_receipt_that_names_nothing_is_refused_without_sending(outlive: Outlive, invoice: Operation) -> None:
    Operation.objects.update(receipt={"proof": "verdict"})
    made = ask(outlive, invoice)
    compensate_once()
    made.refresh_from_db()
    assert (made.state, made.receipt["code"], voids(outlive)) == ("failed", "nothing_to_void", 0)


def test_a_supervisor_that_dies_while_sending_leaves_it_unknown(outlive: Outlive, invoice: Operation) -> None:
    made = ask(outlive, invoice)
    decide(compensations.begin(compensation_id=made.pk, bound_seconds=60))  # and here it dies
    assert compensate_once() == 0
    with connection.cursor() as cursor:
        cursor.execute("update runs_compensation set horizon_at = clock_timestamp() - interval '1 second'")
    sweep_once()
    made.refresh_from_db()
    assert made.state == "unknown"


def test_a_tool_that_this_supervisor_does_not_know_is_left_to_another(outlive: Outlive, invoice: Operation) -> None:
    made = ask(outlive, invoice)
    Operation.objects.update(tool="of_another_host")
    assert compensate_once() == 0
    made.refresh_from_db()
    assert made.state == "intended"


def test_those_of_a_tool_that_is_gone_do_not_keep_the_others_waiting(
    outlive: Outlive, invoice: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compensating, "BATCH", 1)
    outlive.model.says("An invoice for Bob.")
    outlive.run("billing", {"customer": "Bob", "cents": 700})
    ask(outlive, invoice)
    Operation.objects.filter(pk=invoice.pk).update(tool="long_gone")
    known = ask(outlive, Operation.objects.exclude(pk=invoice.pk).get())
    assert compensate_once() == 1
    known.refresh_from_db()
    assert known.state == "succeeded"
