"""Stop in every state: recorded once, true at once for what comes after, and ended only with a complete receipt."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import frames
from runs.database import decide
from runs.decisions import cancels, claims, controls, endings, steps, waiting
from runs.decisions.dispatch import StepCall
from runs.decisions.operations import record_evidence
from runs.ids import new_id
from runs.models import Attempt, Event, Operation, OutboxRow, Question, Run
from runs.states import TERMINAL_EVENT, CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def stop(run: Run, reason: CancelReason = CancelReason.USER, **more: Any) -> Any:
    return decide(cancels.request_cancel(run_id=run.pk, reason=reason, **more), ring=silent)


def end(run: Run, fence: int | None = None) -> Any:
    return decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)


def terminal_events(run: Run) -> list[str]:
    return [t for t in types_of(run) if t in TERMINAL_EVENT.values()]


def test_a_queued_run_is_cancelled_at_once_with_every_worker_down(owner):
    run = a_run(owner)
    answer = stop(run)
    run.refresh_from_db()
    assert (answer.is_first, run.status, run.fence) == (True, Status.CANCELLED, 1)
    assert types_of(run)[-2:] == ["run.cancel_requested", "run.cancelled"]
    assert not OutboxRow.objects.filter(run=run).exists()
    assert isinstance(
        decide(claims.claim(run_id=run.pk, worker="w", lease_seconds=5), ring=silent), claims.NotClaimable
    )


def test_asking_again_changes_nothing_and_the_first_reason_stays(owner):
    run = a_run(owner)
    a_claim(run)
    stop(run)
    run.refresh_from_db()
    first = (run.cancel_id, run.cancel_requested_at, run.version)
    again = stop(run, CancelReason.OPERATOR)
    run.refresh_from_db()
    assert again.is_first is False
    assert (run.cancel_id, run.cancel_requested_at, run.version) == first
    assert run.cancel_reason == "user"
    assert types_of(run).count("run.cancel_requested") == 1


def test_a_running_run_is_cancelled_only_by_its_holder_or_when_the_lease_is_over(owner):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)
    assert end(run) == endings.NotEnded("cancel")
    assert end(run, fence - 1) == endings.NotEnded("lost")
    assert isinstance(end(run, fence), endings.Ended)
    assert terminal_events(run) == ["run.cancelled"]


def test_a_holder_that_stops_in_a_moment_notes_with_the_end_that_it_saw_the_request(owner):
    run = a_run(owner)
    fence = a_claim(run, worker="worker-a")
    stop(run)
    end(run, fence)
    run.refresh_from_db()
    assert types_of(run)[-3:] == ["run.cancel_requested", "run.cancelling", "run.cancelled"]
    assert (run.cancel_seen_by, run.cancel_seen_fence) == ("worker-a", fence)
    assert run.cancel_seen_at is not None


def test_a_supervisor_takes_the_run_from_a_live_lease_past_the_stop_deadline(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    stop(run)
    Run.objects.filter(pk=run.pk).update(stop_deadline_at=timezone.now() - timedelta(seconds=1))
    assert end(run).status == Status.NEEDS_RECONCILIATION
    assert Operation.objects.get(pk=sent.operation_id).state == "unknown"
    run.refresh_from_db()
    assert (run.open_ops, run.unknown_ops, run.lease_until) == (0, 1, None)
    late = decide(steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished"), ring=silent)
    assert isinstance(late, claims.Lost)


def test_the_holder_cannot_end_a_cancel_while_a_write_is_in_flight(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    stop(run)
    assert end(run, fence) == endings.NotEnded("open")
    an_outcome(run, fence, sent, "succeeded")
    ended = end(run, fence)
    assert ended.status == Status.CANCELLED
    assert [e["outcome"] for e in ended.effects] == ["committed"]


@pytest.mark.parametrize(
    ("state", "word", "status"),
    [
        ("succeeded", "committed", Status.CANCELLED),
        ("refuted", "not_started", Status.CANCELLED),
        ("unknown", "unknown", Status.NEEDS_RECONCILIATION),
    ],
)
def test_the_receipt_says_of_a_write_what_the_ledger_says(owner, state, word, status):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    stop(run)
    an_outcome(run, fence, sent, state)
    ended = end(run, fence)
    assert (ended.status, [e["outcome"] for e in ended.effects]) == (status, [word])


def test_a_model_call_that_was_cut_is_abandoned_and_its_text_stays_as_not_final(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, kind="model")
    stop(run)
    expire(run)
    ended = end(run)
    assert (ended.status, [e["outcome"] for e in ended.effects]) == (Status.CANCELLED, ["abandoned"])
    frame = Event.objects.get(stream_id=run.stream_id, type="text.end")
    data = frames.decode(frame.seq, frame.data)["data"]
    assert (data["final"], data["reason"]) == (False, "stop")
    assert types_of(run)[-1] == "run.cancelled"


def test_a_write_with_a_stored_receipt_is_committed_although_its_worker_died(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    stop(run)
    expire(run)
    decide(
        record_evidence(
            operation_id=sent.operation_id, fence=fence, kind="receipt", happened=True, detail={"proof": "http 201"}
        ),
        ring=silent,
    )
    assert end(run).status == Status.CANCELLED


def test_a_finish_that_committed_first_wins_and_the_stop_is_too_late(owner):
    run = a_run(owner)
    fence = a_claim(run)
    decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result="done"), ring=silent)
    answer = stop(run)
    run.refresh_from_db()
    assert (answer.too_late, run.status, run.cancel_id) == (True, Status.COMPLETED, None)
    assert run.result == "done"


def test_a_stop_that_committed_first_keeps_the_run_from_completing(owner):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)
    late = decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result=1), ring=silent)
    assert late == endings.NotEnded("cancel")
    assert terminal_events(run) == []


def test_a_waiting_run_is_cancelled_at_once_and_its_question_is_shut(owner):
    run = a_run(owner)
    fence = a_claim(run)
    question = new_id()
    call = StepCall("1", "ask", "ask", {}, "d" * 64)
    decide(
        waiting.ask(
            run_id=run.pk, fence=fence, step=call, question_id=question, prompt="?", schema={}, timeout_seconds=60
        ),
        ring=silent,
    )
    decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="input"), ring=silent)
    stop(run)
    run.refresh_from_db()
    assert (run.status, Question.objects.get(pk=question).state) == (Status.CANCELLED, "shut")
    late = decide(
        waiting.answer(run_id=run.pk, question_id=question, value=1, by=owner.user.pk, by_name="o"), ring=silent
    )
    assert (late.won, late.state) == (False, "shut")


def test_a_deadline_fires_only_when_it_is_due(owner):
    run = a_run(owner)
    assert stop(run, CancelReason.DEADLINE, overdue_only=True) is None
    Run.objects.filter(pk=run.pk).update(deadline_at=timezone.now())
    assert stop(run, CancelReason.DEADLINE, overdue_only=True).is_first


def test_client_gone_does_not_fire_once_somebody_is_back(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    Run.objects.filter(pk=run.pk).update(grace_expires_at=timezone.now() - timedelta(seconds=1))
    attached = decide(controls.attach(run_id=run.pk, user_id=owner.user.pk), ring=silent)
    assert attached is not None
    assert stop(run, CancelReason.CLIENT_GONE, overdue_only=True) is None
    decide(controls.detach(connection_id=attached.connection_id), ring=silent)
    assert stop(run, CancelReason.CLIENT_GONE, overdue_only=True) is None  # its grace has only begun
    Run.objects.filter(pk=run.pk).update(grace_expires_at=timezone.now() - timedelta(seconds=1))
    assert stop(run, CancelReason.CLIENT_GONE, overdue_only=True).is_first


def test_the_end_of_a_run_ends_its_attempt(owner):
    run = a_run(owner)
    stop(run)
    attempt = Attempt.objects.get(run=run)
    assert (attempt.status, attempt.ended_at is not None) == ("cancelled", True)


@pytest.mark.parametrize(("is_before", "word"), [(True, "finished_first"), (False, "stopped")])
def test_a_command_that_ran_out_of_its_own_time_was_not_stopped_by_a_later_stop(owner, is_before, word):
    """We ended it both times; the receipt of a stop tells what that stop has done."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, is_process=True)
    ended = steps.finish_step(
        run_id=run.pk, fence=fence, step_id=sent.step_id, state="failed",
        outcome=steps.OperationOutcome("succeeded", {"proof": "process tree empty", "stopped": True}),
    )  # fmt: skip
    asked = cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER)
    for decision in (ended, asked) if is_before else (asked, ended):
        decide(decision, ring=silent)
    assert [(e["outcome"], e["proof"]) for e in end(run, fence).effects] == [(word, "process tree empty")]
