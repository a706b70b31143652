"""Deleting whole runs: a year after their end, and none that something still needs."""

import pytest
from django.db.models import F

from runs.access import Actor
from runs.database import decide
from runs.decisions import forgetting
from runs.models import Artifact, Attempt, Checkpoint, Conversation, Event, NextMessage, Run, Step
from runs.retention.checkpoints import keep
from runs.retention.forgetting import forgettable_runs
from runs.supervisor.keeping import tidy_once
from tests.builders import a_child, a_claim, a_dispatch, a_run, silent
from tests.runs.retention.conftest import a_text, a_told_run, make_older
from tests.streaming.writing import end, start_new_attempt

pytestmark = pytest.mark.django_db
YEAR = 365.5
DONE = {
    "status": "completed", "has_result": True, "open_ops": 0, "open_children": 0, "lease_until": None,
    "lease_owner": None, "fence": F("fence") + 1,
}  # fmt: skip


def an_old_run(owner: Actor) -> Run:
    run = a_told_run(owner, *a_text("m", 3))
    make_older(run, days=YEAR)
    return run


def test_a_run_that_ended_a_year_ago_is_deleted_with_all_that_is_its_own(owner: Actor) -> None:
    young = a_told_run(owner)
    run = a_told_run(owner, *a_text("m", 3))
    start_new_attempt(run)
    end(run, rings=False)
    keep(run.stream_id)
    Artifact.objects.create(run=run, name="f", content_type="text/plain", content=b"x", size_bytes=1, sha256="0")
    make_older(run, days=364)
    assert tidy_once() == 0
    make_older(run, days=1.5)
    assert tidy_once() == 1
    assert list(Run.objects.all()) == [young]
    assert [Artifact.objects.count(), Checkpoint.objects.count(), Attempt.objects.count()] == [0, 0, 1]
    assert set(Event.objects.values_list("stream_id", flat=True)) == {young.stream_id}


def test_a_run_with_an_operation_stays_for_the_ledger_is_never_deleted(owner: Actor) -> None:
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence)
    Run.objects.update(**DONE, terminal_at=run.created_at)
    make_older(run, days=YEAR)
    assert tidy_once() == 0


@pytest.mark.parametrize("change", [{"is_held": True}, {"status": "needs_reconciliation"}])
def test_what_is_held_or_in_doubt_stays(owner: Actor, change: dict[str, object]) -> None:
    run = an_old_run(owner)
    Run.objects.update(**change)
    assert forgettable_runs() == []
    assert decide(forgetting.forget(run_id=run.pk, days=365), ring=silent) == 0
    assert Run.objects.exists()


def test_a_tree_goes_together_when_the_youngest_is_old(owner: Actor) -> None:
    root = a_run(owner)
    child = a_child(root, a_claim(root))
    Run.objects.update(**DONE, terminal_at=root.created_at)
    make_older(root, days=YEAR)
    assert tidy_once() == 0
    make_older(child, days=YEAR)
    assert tidy_once() == 1
    assert (Run.objects.count(), Step.objects.count()) == (0, 0)


def test_a_conversation_goes_when_its_last_run_is_old_and_nothing_waits(owner: Actor) -> None:
    conversation = Conversation.objects.create(tenant=owner.tenant, created_by=owner.user, turns=2)
    first, second = an_old_run(owner), a_told_run(owner)
    for turn, run in enumerate((first, second), 1):
        Run.objects.filter(pk=run.pk).update(conversation=conversation, turn=turn)
    assert tidy_once() == 0
    make_older(second, days=YEAR)
    message = NextMessage.objects.create(
        conversation=conversation, tenant=owner.tenant, created_by=owner.user, agent="chat", title="t", input={},
        deadline_seconds=1.0, on_disconnect="continue",
    )  # fmt: skip
    assert tidy_once() == 0
    NextMessage.objects.filter(pk=message.pk).update(withdrawn_at=second.created_at)
    assert tidy_once() == 1
    assert [Run.objects.count(), Conversation.objects.count(), NextMessage.objects.count()] == [0, 0, 0]


def test_a_child_in_the_ledger_keeps_all_runs_of_its_root_s_conversation(owner: Actor) -> None:
    conversation = Conversation.objects.create(tenant=owner.tenant, created_by=owner.user, turns=2)
    first, second = an_old_run(owner), a_run(owner)
    first.refresh_from_db()
    child = a_child(second, a_claim(second))
    a_dispatch(child, a_claim(child))
    Run.objects.exclude(pk=first.pk).update(**DONE, terminal_at=first.terminal_at)
    for turn, run in enumerate((first, second), 1):
        Run.objects.filter(pk=run.pk).update(conversation=conversation, turn=turn)
    assert tidy_once() == 0
    assert Run.objects.count() == 3


def test_all_of_a_conversation_is_deleted_in_one_transaction(owner: Actor) -> None:
    """Not run by run: between two of them a retry of the younger would be told of an older one that is gone."""
    conversation = Conversation.objects.create(tenant=owner.tenant, created_by=owner.user, turns=2)
    for turn in (1, 2):
        Run.objects.filter(pk=an_old_run(owner).pk).update(conversation=conversation, turn=turn)
    root = Run.objects.order_by("id")[0]
    assert decide(forgetting.forget(run_id=root.pk, days=365), ring=silent) == 2
    assert [Run.objects.count(), Conversation.objects.count()] == [0, 0]


def test_a_retry_that_came_first_keeps_the_run(owner: Actor) -> None:
    run = an_old_run(owner)
    (due,) = forgettable_runs()
    start_new_attempt(run)
    assert decide(forgetting.forget(run_id=due["id"], days=365), ring=silent) == 0
    assert Run.objects.exists()
