"""Ends: who may end a run and when, what the end closes and leaves alone, and what it keeps."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import TestCase
from django.utils import timezone

from runs import frames
from runs.conf import limits
from runs.database import decide
from runs.decisions import cancels, claims, controls, endings, waiting
from runs.decisions.core import Advance, Bell
from runs.decisions.dispatch import StepCall
from runs.ids import new_id
from runs.models import Attempt, ControlConnection, Event, OutboxRow, Question, Run
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_cancels import end, stop, terminal_events
from tests.runs.decisions.test_claims import expire, types_of


def ask(run: Run, fence: int, path: str = "1") -> Any:
    question, call = new_id(), StepCall(path, "ask", "ask", {}, "d" * 64)
    asking = waiting.ask(
        run_id=run.pk, fence=fence, step=call, question_id=question, prompt="?", schema={}, timeout_seconds=60
    )
    decide(asking, ring=silent)
    return question


def finish(run: Run, fence: int) -> Any:
    return decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result=1), ring=silent)


def park(run: Run, fence: int, **more: Any) -> Any:
    return decide(endings.park(run_id=run.pk, fence=fence, **more), ring=silent)


def data_of(run: Run, name: str) -> Any:
    event = Event.objects.get(stream_id=run.stream_id, type=name)
    return frames.decode(event.seq, event.data)["data"]


@pytest.mark.parametrize("end_it", [lambda run, fence: stop(run), finish])
def test_an_end_shuts_only_what_its_own_run_still_asks(owner, end_it):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    answered, open_one, others = ask(run, fence), ask(run, fence, "2"), ask(other, a_claim(other))
    decide(waiting.answer(run_id=run.pk, question_id=answered, value=1, by=owner.user.pk, by_name="o"), ring=silent)
    end_it(run, fence)
    assert dict(Question.objects.values_list("pk", "state")) == {
        answered: "answered", open_one: "shut", others: "open",
    }  # fmt: skip


def test_an_end_leaves_other_runs_as_they_are(owner):
    run, other = a_run(owner), a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    attached = decide(controls.attach(run_id=other.pk, user_id=owner.user.pk), ring=silent)
    stop(run)
    other.refresh_from_db()
    assert (other.status, other.control_count, Attempt.objects.get(run=other).ended_at) == (Status.QUEUED, 1, None)
    assert ControlConnection.objects.get(pk=attached.connection_id).is_live
    assert OutboxRow.objects.filter(run=other).exists()


def test_a_stop_is_on_record_with_who_why_and_until_when(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    a_claim(run)
    answer = stop(run, note="too costly", by=owner.user.pk)
    run.refresh_from_db()
    assert (run.status, run.cancel_reason, run.cancel_note) == (Status.CANCEL_REQUESTED, "user", "too costly")
    assert (run.cancel_by_id, run.grace_expires_at) == (owner.user.pk, None)
    within = (run.stop_deadline_at - run.cancel_requested_at).total_seconds()
    assert within == pytest.approx(limits().stop_deadline_seconds, abs=0.1)
    assert (answer.is_first, answer.too_late, answer.effects) == (True, False, [])


def test_a_stop_asks_the_holder_or_where_nobody_holds_it_another_worker(owner):
    held, left = a_run(owner), a_run(owner)
    for run in (held, left):
        a_dispatch(run, a_claim(run))
    expire(left)
    rung: list[Any] = []
    with TestCase.captureOnCommitCallbacks(execute=True):
        for run in (held, left):
            decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=rung.extend)
    assert Bell(b"w:worker-a", held.pk.hex.encode()) in rung
    assert [e.run_id for e in rung if isinstance(e, Advance)] == [left.pk]
    assert list(OutboxRow.objects.values_list("run_id", flat=True)) == [left.pk]
    left.refresh_from_db()
    assert left.status == Status.CANCEL_REQUESTED  # its write is still out: it is not judged in passing


def test_a_stop_does_not_end_a_run_whose_operation_is_unknown(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    expire(run)
    stop(run)
    assert Run.objects.get(pk=run.pk).status == Status.CANCEL_REQUESTED
    assert end(run).status == Status.NEEDS_RECONCILIATION


def test_a_second_stop_of_a_stopped_run_is_not_too_late(owner):
    run = a_run(owner)
    stop(run)
    again = stop(run)
    assert (again.is_first, again.too_late) == (False, False)


def test_client_gone_needs_that_nobody_is_there(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    decide(controls.attach(run_id=run.pk, user_id=owner.user.pk), ring=silent)
    assert stop(run, CancelReason.CLIENT_GONE, overdue_only=True) is None
    with pytest.raises(IntegrityError, match="run_grace_only_while_alone"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(grace_expires_at=timezone.now() - timedelta(seconds=1))


def test_every_end_takes_the_fence_and_the_lease(owner):
    """RULES H1: a stop that ends at once, the end of a stop by its holder and by a supervisor, a finish, a park."""
    queued, left, held, dead, done, parked = (a_run(owner) for _ in range(6))
    stop(queued)
    a_claim(left)
    expire(left)
    stop(left)
    fence = a_claim(held)
    stop(held)
    end(held, fence)
    a_claim(dead)
    stop(dead)
    expire(dead)
    end(dead)
    finish(done, a_claim(done))
    fence = a_claim(parked)
    an_outcome(parked, fence, a_dispatch(parked, fence), "unknown")
    park(parked, fence)
    rows = {r.pk: (r.fence, r.lease_until, r.lease_owner, r.terminal_at is None) for r in Run.objects.all()}
    assert rows.pop(queued.pk) == (1, None, None, False)
    assert set(rows.values()) == {(2, None, None, False)}


def test_a_holder_that_ends_a_stop_at_once_has_seen_it(owner):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)
    end(run, fence)
    run.refresh_from_db()
    assert (run.cancel_seen_by, run.cancel_seen_fence, run.cancel_seen_at is None) == ("worker-a", fence, False)
    assert types_of(run)[-2:] == ["run.cancelling", "run.cancelled"]


def test_a_supervisor_that_ends_a_stop_has_not_seen_it_for_the_holder(owner):
    run = a_run(owner)
    a_claim(run)
    stop(run)
    expire(run)
    end(run)
    run.refresh_from_db()
    assert (run.cancel_seen_at, run.cancel_seen_by, run.cancel_seen_fence) == (None, None, None)
    assert "run.cancelling" not in types_of(run)


def test_a_supervisor_does_not_judge_what_its_holder_may_still_bring(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    stop(run)
    assert end(run) == endings.NotEnded("open")
    assert Run.objects.get(pk=run.pk).status == Status.CANCEL_REQUESTED


def test_a_run_that_nobody_asked_to_stop_is_not_ended_as_stopped(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert end(run, fence) == endings.NotEnded("open")
    expire(run)
    assert end(run) == endings.NotEnded("open")
    assert terminal_events(run) == []


def test_a_failed_run_says_why(owner):
    run = a_run(owner)
    failed = endings.finish_run(
        run_id=run.pk, fence=a_claim(run), status=Status.FAILED, error_code="agent_error", error_message="a\x00b"
    )
    assert decide(failed, ring=silent) == endings.Ended(Status.FAILED)
    run.refresh_from_db()
    assert (run.status, run.has_result, run.error_code, run.error_message) == (
        Status.FAILED, False, "agent_error", "a\ufffdb",
    )  # fmt: skip
    assert (run.cancel_effects, run.terminal_at is None) == (None, False)
    assert data_of(run, "run.failed") == {"code": "agent_error", "message": "a\ufffdb"}


def test_a_completed_run_keeps_its_result_and_says_it(owner):
    run = a_run(owner)
    finish(run, a_claim(run))
    run.refresh_from_db()
    assert (run.status, run.has_result, run.result, run.error_code) == (Status.COMPLETED, True, 1, None)
    assert data_of(run, "run.completed") == {"result": 1}


@pytest.mark.parametrize("has_result", [True, False])
def test_a_parked_run_keeps_the_result_of_an_agent_that_had_returned(owner, has_result):
    run, other = a_run(owner), a_run(owner)
    for one in (run, other):
        fence = a_claim(one)
        an_outcome(one, fence, a_dispatch(one, fence), "unknown")
    park(run, fence, has_result=has_result, result="r")
    run.refresh_from_db()
    assert (run.has_result, run.result) == ((True, "r") if has_result else (False, None))
    (named,) = data_of(run, "run.needs_reconciliation")["operations"]
    assert (named["operation_key"], named["tool"]) == (f"{run.pk.hex}:1", "create_invoice")


def test_only_the_holder_of_a_run_with_an_unknown_operation_parks_it(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert park(run, fence) == endings.NotEnded("open")
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert park(run, fence - 1) == endings.NotEnded("lost")
    stop(run)
    assert park(run, fence) == endings.NotEnded("cancel")


def test_a_run_is_not_parked_while_a_read_is_in_flight(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, path="2", effect="read")
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert park(run, fence) == endings.NotEnded("open")
    assert Run.objects.get(pk=run.pk).status == Status.RUNNING


def test_only_the_holder_finishes_and_only_once(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert finish(run, fence - 1) == endings.NotEnded("lost")
    assert finish(run, fence) == endings.Ended(Status.COMPLETED)
    assert finish(run, fence) == endings.NotEnded("ended")


def test_an_end_leaves_the_time_at_which_a_connection_was_closed(owner):
    run = a_run(owner)
    attached = decide(controls.attach(run_id=run.pk, user_id=owner.user.pk), ring=silent)
    decide(controls.detach(connection_id=attached.connection_id), ring=silent)
    closed_at = ControlConnection.objects.get().closed_at
    stop(run)
    assert ControlConnection.objects.get().closed_at == closed_at


def test_an_end_leaves_the_time_at_which_the_holder_saw_the_stop(owner):
    run = a_run(owner)
    fence = a_claim(run)
    stop(run)
    decide(claims.see_cancel(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    seen_at = run.cancel_seen_at
    end(run, fence)
    run.refresh_from_db()
    assert (run.cancel_seen_at, types_of(run).count("run.cancelling")) == (seen_at, 1)
