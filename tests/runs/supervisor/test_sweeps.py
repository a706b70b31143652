"""One sweep acts on each kind of overdue row, and on nothing that is healthy."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, controls, endings, waiting
from runs.decisions.dispatch import StepCall
from runs.decisions.policy import RIGHTS_LOST
from runs.ids import new_id
from runs.models import ControlConnection, Event, Membership, OutboxRow, Question, Run
from runs.ringing import client
from runs.states import CancelReason, Status
from runs.supervisor.lost_workers import worker_gone
from runs.supervisor.sweeps import sweep_once
from tests.builders import a_child, a_claim, a_dispatch, a_run, silent

PAST = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _empty_queue():
    client().flushdb()


def make_overdue(run, **fields):
    Run.objects.filter(pk=run.pk).update(**{name: timezone.now() - PAST for name in fields})


def queued_jobs():
    return client().llen("rq:queue:default")


def test_a_healthy_system_is_left_alone(owner):
    fresh, running = a_run(owner), a_run(owner)
    a_claim(running)
    versions = {r.pk: r.version for r in Run.objects.all()}
    assert sweep_once() == 0
    assert {r.pk: r.version for r in Run.objects.all()} == versions
    assert queued_jobs() == 0
    assert fresh.status == Status.QUEUED


def test_a_run_whose_bell_was_lost_is_rung_again_and_not_at_each_sweep(owner, django_capture_on_commit_callbacks):
    run = a_run(owner)
    OutboxRow.objects.update(due_at=timezone.now() - PAST)
    with django_capture_on_commit_callbacks(execute=True):
        assert sweep_once() == 1
    assert queued_jobs() == 1
    assert sweep_once() == 0
    assert OutboxRow.objects.get(run=run).due_at > timezone.now()


def test_an_expired_lease_frees_the_run_and_tells_its_followers(owner):
    run = a_run(owner)
    fence = a_claim(run)
    make_overdue(run, lease_until=True)
    sweep_once()
    run.refresh_from_db()
    assert (run.status, run.lease_owner, run.fence) == (Status.RUNNING, None, fence + 1)
    assert Event.objects.filter(stream_id=run.stream_id, type="claim.lost").exists()
    assert OutboxRow.objects.filter(run=run).exists()


def test_an_overdue_run_is_asked_to_stop_with_the_reason_deadline(owner):
    run = a_run(owner)
    make_overdue(run, deadline_at=True)
    sweep_once()
    run.refresh_from_db()
    assert (run.status, run.cancel_reason) == (Status.CANCELLED, "deadline")


def test_a_run_whose_page_never_opened_ends_as_client_gone(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=1.0)
    make_overdue(run, grace_expires_at=True)
    sweep_once()
    run.refresh_from_db()
    assert (run.status, run.cancel_reason) == (Status.CANCELLED, "client_gone")


def test_a_killed_web_process_starts_the_grace_of_its_connections(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=60.0)
    decide(controls.attach(run_id=run.pk, user_id=owner.user.pk), ring=silent)
    ControlConnection.objects.update(presence_until=timezone.now() - PAST)
    sweep_once()
    run.refresh_from_db()
    assert (run.control_count, run.grace_expires_at is None) == (0, False)
    assert run.status == Status.QUEUED


def test_a_stopping_run_without_a_holder_is_ended(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), kind="model")
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    sweep_once()
    run.refresh_from_db()
    assert run.status == Status.CANCEL_REQUESTED  # its lease is live
    make_overdue(run, lease_until=True)
    sweep_once()
    run.refresh_from_db()
    assert run.status == Status.CANCELLED


def test_a_deaf_holder_loses_its_run_at_the_stop_deadline(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    make_overdue(run, stop_deadline_at=True)
    sweep_once()
    run.refresh_from_db()
    assert run.status == Status.NEEDS_RECONCILIATION


def test_questions_and_timers_fire_when_due(owner):
    asking, sleeping = a_run(owner), a_run(owner)
    fence = a_claim(asking)
    step = StepCall("1", "ask", "ask", {}, "d")
    decide(
        waiting.ask(
            run_id=asking.pk, fence=fence, step=step, question_id=new_id(), prompt="?", schema={}, timeout_seconds=60
        ),
        ring=silent,
    )
    decide(waiting.wait(run_id=asking.pk, fence=fence, wakes=0, waiting_for="input"), ring=silent)
    decide(
        waiting.wait(
            run_id=sleeping.pk, fence=a_claim(sleeping), wakes=0, waiting_for="timer",
            wake_at=timezone.now() + timedelta(seconds=60),
        ),
        ring=silent,
    )  # fmt: skip
    assert sweep_once() == 0
    Question.objects.update(expires_at=timezone.now() - PAST)
    make_overdue(sleeping, wake_at=True)
    sweep_once()
    assert set(Run.objects.values_list("status", flat=True)) == {Status.RUNNING}
    assert OutboxRow.objects.filter(run=sleeping).exists()


def test_a_dead_workers_runs_are_free_and_its_operations_have_no_holder(owner):
    run, other = a_run(owner), a_run(owner)
    sent = a_dispatch(run, a_claim(run))
    a_claim(other, "worker-b")
    assert worker_gone("worker-a", {"exit": -9}) == 1
    run.refresh_from_db()
    other.refresh_from_db()
    assert (run.lease_owner, other.lease_owner) == (None, "worker-b")
    operation = run.operations.get(pk=sent.operation_id)
    assert operation.holder_gone_at is not None
    assert operation.evidence.get().detail == {"exit": -9}
    assert worker_gone("worker-a", {"exit": -9}) == 0


def test_a_row_that_cannot_be_acted_on_does_not_keep_the_rows_behind_it_waiting(owner, caplog):
    broken, overdue = a_run(owner), a_run(owner)
    a_claim(broken)
    broken.refresh_from_db()
    Event.objects.create(stream_id=broken.stream_id, seq=broken.last_seq + 1, type="stray", data="{}")
    make_overdue(broken, lease_until=True)
    make_overdue(overdue, deadline_at=True)
    sweep_once()
    overdue.refresh_from_db()
    assert overdue.status == Status.CANCELLED
    assert "supervisor.row_failed" in caplog.text


def test_a_childs_end_that_nobody_told_reaches_its_parent(owner):
    run = a_run(owner)
    fence = a_claim(run)
    child = a_child(run, fence)
    decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="child"), ring=silent)
    decide(endings.finish_run(run_id=child.pk, fence=a_claim(child), status=Status.COMPLETED), ring=silent)
    sweep_once()
    run.refresh_from_db()
    assert (run.status, run.open_children, run.wakes) == (Status.RUNNING, 0, 1)
    assert not OutboxRow.objects.filter(kind="child").exists()


def leave(owner):
    Membership.objects.filter(user=owner.user).delete()


def be_deactivated(owner):
    get_user_model().objects.filter(pk=owner.user.pk).update(is_active=False)


def only_view(owner):
    Membership.objects.filter(user=owner.user).update(role="viewer")


@pytest.mark.parametrize("lose", [leave, be_deactivated, only_view])
def test_whoever_may_run_nothing_here_any_more_has_nothing_going_on_here(owner, teammate, lose):
    """At the latest by the supervisor: a run that waits, or a shell, dispatches nothing for a long time."""
    queued, waits, calls, other = a_run(owner), a_run(owner), a_run(owner), a_run(teammate)
    fence = a_claim(waits)
    decide(
        waiting.ask(
            run_id=waits.pk, fence=fence, step=StepCall("1", "ask", "ask", {}, "d"), question_id=new_id(),
            prompt="?", schema={"type": "string"}, timeout_seconds=3600.0,
        ),
        ring=silent,
    )  # fmt: skip
    decide(waiting.wait(run_id=waits.pk, fence=fence, wakes=0, waiting_for="input"), ring=silent)
    fence = a_claim(calls)
    a_dispatch(calls, fence)
    child = a_child(calls, fence, "2")
    assert sweep_once() == 0
    lose(owner)
    sweep_once()
    found = {run: Run.objects.get(pk=run.pk) for run in (queued, waits, calls, child, other)}
    assert [found[run].status for run in (queued, waits, calls)] == ["cancelled", "cancelled", "cancel_requested"]
    assert [found[run].cancel_reason for run in found] == ["policy", "policy", "policy", "parent", None]
    assert found[calls].cancel_note == RIGHTS_LOST


def test_a_tree_whose_budget_is_spent_is_stopped(owner):
    run = a_run(owner, budget_tokens=10)
    other = a_run(owner, budget_tokens=11)
    child = a_child(run, a_claim(run))
    a_claim(child)
    Run.objects.filter(pk__in=[child.pk, other.pk]).update(output_tokens=10)
    sweep_once()
    assert [Run.objects.get(pk=r.pk).cancel_reason for r in (run, child, other)] == ["policy", "parent", None]
