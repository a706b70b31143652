"""Undoing a committed effect: each guard, and that the run stays as it is."""

from typing import Any

import pytest
from django.db import connection

from runs.access import Actor
from runs.database import decide
from runs.decisions import compensations, endings
from runs.decisions.compensations import NotCompensated
from runs.models import Compensation, Event, Operation, Run
from runs.states import OperationState, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent

pytestmark = pytest.mark.django_db
DONE = {"proof": "http 200"}


def an_operation(owner: Actor, state: str = "succeeded", *, ends: bool = True) -> Operation:
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, state)
    if ends:
        decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result={}), ring=silent)
    return Operation.objects.get(pk=sent.operation_id)


def ask(operation: Operation, **changes: Any) -> Any:
    given = {"operation_id": operation.pk, "version": operation.version, "by": operation.run.created_by_id,
             "by_name": "owner", "note": "a mistake"} | changes  # fmt: skip
    return decide(compensations.request(**given), ring=silent)


def begin(compensation_id: Any, bound_seconds: float = 60.0) -> Any:
    return decide(compensations.begin(compensation_id=compensation_id, bound_seconds=bound_seconds), ring=silent)


def finish(compensation_id: Any, state: OperationState) -> bool:
    return decide(compensations.finish(compensation_id=compensation_id, state=state, receipt=DONE), ring=silent)


def settle(compensation_id: Any, *, happened: bool, version: int | None = None) -> bool:
    found = Compensation.objects.get(pk=compensation_id)
    return decide(
        compensations.settle(
            compensation_id=compensation_id, version=found.version if version is None else version, happened=happened,
            by=found.requested_by_id, by_name="owner", note="saw it",
        ),
        ring=silent,
    )  # fmt: skip


def state_of(compensation_id: Any) -> str:
    return Compensation.objects.get(pk=compensation_id).state


def told(operation: Operation) -> list[str]:
    events = Event.objects.filter(stream_id=operation.run.stream_id, type__startswith="compensation.")
    return [e.type for e in events.order_by("seq")]


def test_from_the_wish_to_the_receipt_and_the_run_stays_as_it_is(owner: Actor) -> None:
    operation = an_operation(owner)
    before = Run.objects.filter(pk=operation.run_id).values("status", "open_ops", "unknown_ops", "terminal_at", "fence")
    was = before.get()
    made = ask(operation)
    taken = begin(made)
    assert (taken["key"], taken["tool"]) == (f"comp:{operation.key}#1", operation.tool)
    assert finish(made, OperationState.SUCCEEDED)
    found = Compensation.objects.get(pk=made)
    assert (found.state, found.receipt, found.finished_at is None) == ("succeeded", DONE, False)
    assert before.get() == was
    assert told(operation) == ["compensation.requested", "compensation.dispatched", "compensation.finished"]


def test_an_operation_of_a_run_that_goes_on_can_be_undone_too(owner: Actor) -> None:
    operation = an_operation(owner, ends=False)
    begin(ask(operation))
    assert told(operation) == ["compensation.requested", "compensation.dispatched"]


@pytest.mark.parametrize("state", ["failed", "refuted", "unknown"])
def test_only_what_happened_can_be_undone(owner: Actor, state: str) -> None:
    assert ask(an_operation(owner, state, ends=False)) == NotCompensated("not_committed")


def test_who_read_another_version_is_told(owner: Actor) -> None:
    operation = an_operation(owner)
    assert ask(operation, version=operation.version + 1) == NotCompensated("stale")
    assert not Compensation.objects.exists()


@pytest.mark.parametrize("state", [None, OperationState.SUCCEEDED, OperationState.UNKNOWN])
def test_one_that_counts_bars_another(owner: Actor, state: OperationState | None) -> None:
    operation = an_operation(owner)
    first = ask(operation)
    if state is not None:
        begin(first)
        finish(first, state)
    assert ask(operation) == NotCompensated("exists", first)


def test_after_a_refusal_it_can_be_asked_again_under_a_new_key(owner: Actor) -> None:
    operation = an_operation(owner)
    first = ask(operation)
    begin(first)
    finish(first, OperationState.FAILED)
    second = ask(operation)
    assert Compensation.objects.get(pk=second).key == f"comp:{operation.key}#2"


def test_it_is_taken_for_sending_once(owner: Actor) -> None:
    made = ask(an_operation(owner))
    assert begin(made) is not None
    assert begin(made) is None


def test_an_end_without_a_dispatch_is_none(owner: Actor) -> None:
    made = ask(an_operation(owner))
    assert not finish(made, OperationState.SUCCEEDED)
    assert state_of(made) == "intended"


def test_a_late_answer_settles_what_was_unknown_and_not_what_a_person_decided(owner: Actor) -> None:
    made = ask(an_operation(owner))
    begin(made)
    finish(made, OperationState.UNKNOWN)
    assert finish(made, OperationState.SUCCEEDED)
    other = ask(an_operation(owner))
    begin(other)
    finish(other, OperationState.UNKNOWN)
    assert settle(other, happened=False)
    assert not finish(other, OperationState.SUCCEEDED)
    assert (state_of(made), state_of(other)) == ("succeeded", "refuted")


def test_it_is_given_up_after_its_horizon_and_not_before(owner: Actor) -> None:
    made = ask(an_operation(owner))
    begin(made)
    assert not decide(compensations.give_up(compensation_id=made), ring=silent)
    with connection.cursor() as cursor:
        cursor.execute("update runs_compensation set horizon_at = clock_timestamp() - interval '1 second'")
    assert decide(compensations.give_up(compensation_id=made), ring=silent)
    assert state_of(made) == "unknown"
    assert not decide(compensations.give_up(compensation_id=made), ring=silent)


@pytest.mark.parametrize(("happened", "state"), [(True, "confirmed"), (False, "refuted")])
def test_a_person_decides_what_nobody_knows(owner: Actor, happened: bool, state: str) -> None:
    made = ask(an_operation(owner))
    assert not settle(made, happened=happened)  # nothing was sent
    begin(made)
    assert not settle(made, happened=happened)  # it is under way
    finish(made, OperationState.UNKNOWN)
    assert not settle(made, happened=happened, version=1)
    assert settle(made, happened=happened)
    assert not settle(made, happened=not happened)
    assert state_of(made) == state


def test_after_a_word_that_it_did_not_happen_it_can_be_asked_again(owner: Actor) -> None:
    operation = an_operation(owner)
    first = ask(operation)
    begin(first)
    finish(first, OperationState.UNKNOWN)
    settle(first, happened=False)
    assert Compensation.objects.get(pk=ask(operation)).number == 2


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED])
def test_the_first_answer_stays(owner: Actor, state: OperationState) -> None:
    made = ask(an_operation(owner))
    begin(made)
    assert finish(made, state)
    for other in (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.UNKNOWN):
        assert not finish(made, other)
    assert state_of(made) == state


def test_each_change_of_it_has_a_version_of_its_own(owner: Actor) -> None:
    """Who decides by what they read is told when it has moved since."""
    made = ask(an_operation(owner))
    versions = [Compensation.objects.get(pk=made).version]
    for act in (lambda: begin(made), lambda: finish(made, OperationState.UNKNOWN), lambda: settle(made, happened=True)):
        act()
        versions.append(Compensation.objects.get(pk=made).version)
    assert versions == [1, 2, 3, 4]
