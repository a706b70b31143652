"""A tree over HTTP: who is whose child, the budget, and the receipt of a stop that takes the children along."""

from typing import Any

import pytest

from runs.api.schemas import CancelReceiptOut, RunOut
from runs.ids import parse_id, text_id
from runs.models import Run
from tests.builders import a_child, a_claim
from tests.runs.api.conftest import Caller, error_of


def a_family(owner: Caller, **fields: Any) -> tuple[Run, Run]:
    """Make a run that has begun a child."""
    run = Run.objects.get(pk=parse_id("run", owner.create(**fields)["id"]))
    return run, a_child(run, a_claim(run))


def test_parent_and_child_name_each_other(owner: Caller) -> None:
    run, child = a_family(owner)
    ids = text_id("run", run.pk), text_id("run", child.pk)
    above, below = (owner.get(f"/runs/{one}").json() for one in ids)
    RunOut.model_validate(above)
    assert above["children"] == [{"id": ids[1], "agent": "probe", "status": "queued"}]
    assert (above["parent_id"], below["parent_id"], below["children"]) == (None, ids[0], [])
    (step,) = owner.get(f"/runs/{ids[0]}/steps").json()["data"]
    assert (step["kind"], step["name"], step["state"]) == ("child", "probe", "open")


def test_children_are_listed_by_their_parent(owner: Caller) -> None:
    run, child = a_family(owner)
    a_family(owner)
    listed = owner.get(f"/runs?parent={text_id('run', run.pk)}").json()["data"]
    assert [one["id"] for one in listed] == [text_id("run", child.pk)]
    refused = owner.get("/runs?parent=everybody")
    assert (refused.status_code, error_of(refused)["param"]) == (400, "parent")


def test_a_list_reads_all_children_with_one_query(owner: Caller, django_assert_max_num_queries: Any) -> None:
    for _ in range(3):
        a_family(owner)
    with django_assert_max_num_queries(12):
        assert len(owner.get("/runs").json()["data"]) == 6


def test_the_receipt_of_a_stop_names_each_child_and_what_became_of_it(owner: Caller) -> None:
    run, child = a_family(owner)
    answer = owner.post(f"/runs/{text_id('run', run.pk)}/cancel")
    receipt = answer.json()
    CancelReceiptOut.model_validate(receipt)
    (effect,) = receipt["effects"]
    assert (effect["kind"], effect["child_id"], effect["outcome"]) == ("child", text_id("run", child.pk), "not_started")
    stopped = owner.get(f"/runs/{text_id('run', child.pk)}").json()
    assert (stopped["status"], stopped["cancel"]["reason"]) == ("cancelled", "parent")


def test_a_budget_is_kept_and_the_same_key_wants_the_same_one(owner: Caller) -> None:
    body = {"agent": "echo", "input": {"text": "hello"}, "budget": {"tokens": 500}}
    made = owner.post("/runs", body, idempotency_key="k")
    assert made.json()["budget"] == {"tokens": 500}
    assert owner.post("/runs", body, idempotency_key="k").json()["id"] == made.json()["id"]
    other = owner.post("/runs", body | {"budget": {"tokens": 501}}, idempotency_key="k")
    assert other.status_code == 422
    assert owner.create()["budget"] is None


@pytest.mark.parametrize("tokens", [0, -1, 1.5, True, "5", None, 10**13])
def test_a_budget_is_a_positive_whole_number(owner: Caller, tokens: Any) -> None:
    refused = owner.post("/runs", {"agent": "echo", "input": {"text": "x"}, "budget": {"tokens": tokens}})
    assert refused.status_code == 400
    assert error_of(refused)["param"] == "budget.tokens"
    assert not Run.objects.exists()
