"""A contradicted operation: an operator looks at it, and its run may be retried again."""

import pytest

from runs.database import decide
from runs.decisions import operations, retry, reviews
from runs.ids import new_id
from runs.models import Evidence, Operation
from tests.builders import silent
from tests.runs.decisions.test_claims import types_of
from tests.runs.decisions.test_retry import a_run_in_doubt, a_run_that_sent, again, verdict


def contradicted(owner, decided):
    """Decide an operation, and let evidence say the opposite."""
    run, operation = a_run_in_doubt(owner)
    verdict(operation, decided)
    evidence = operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=not decided,
        detail={"value": {"id": 8}},
    )  # fmt: skip
    decide(evidence, ring=silent)
    operation.refresh_from_db()
    assert operation.contradicted_at is not None
    return run, operation


def look_at(operation, happened, **more):
    fields = {"operation_id": operation.pk, "version": operation.version, "by": operation.settled_by_id or 1}
    return reviews.review(**(fields | {"happened": happened, "by_name": "ann", "note": "seen"} | more))


@pytest.mark.parametrize(
    ("decided", "happened", "state"),
    [(False, True, "confirmed"), (False, False, "refuted"), (True, False, "refuted"), (True, True, "confirmed")],
)
def test_the_operators_word_decides_and_the_run_may_be_retried(owner, operator, decided, happened, state):
    run, operation = contradicted(owner, decided)
    assert isinstance(again(run), retry.NotRetried)
    settled = decide(look_at(operation, happened, by=operator.user.pk), ring=silent)
    assert (settled.state, settled.run_status) == (state, "failed")
    operation.refresh_from_db()
    assert (operation.state, operation.contradicted_at, operation.settled_by) == (state, None, operator.user)
    kept = Evidence.objects.filter(operation=operation, kind="verdict").last()
    assert (kept.happened, kept.detail["note"]) == (happened, "seen")
    assert types_of(run)[-1] == "operation.settled"
    assert isinstance(again(run), retry.Retried)


def test_what_happened_after_all_has_the_receipt_that_said_so(owner, operator):
    _, operation = contradicted(owner, False)
    decide(look_at(operation, True, by=operator.user.pk), ring=silent)
    operation.refresh_from_db()
    assert operation.receipt == {"value": {"id": 8}}


def test_a_version_that_has_moved_or_nothing_to_look_at_changes_nothing(owner, operator):
    _, operation = contradicted(owner, False)
    by = operator.user.pk
    stale = decide(look_at(operation, True, by=by, version=operation.version - 1), ring=silent)
    _, clean = a_run_that_sent(owner)
    nothing = decide(look_at(clean, False, by=by), ring=silent)
    missing = decide(look_at(operation, True, by=by, operation_id=new_id()), ring=silent)
    assert [stale, nothing, missing] == [
        operations.NotSettled("stale"), operations.NotSettled("stale"), operations.NotSettled("missing"),
    ]  # fmt: skip
    clean.refresh_from_db()
    assert (clean.state, Operation.objects.get(pk=operation.pk).contradicted_at is None) == ("succeeded", False)
