"""Looking after unknown operations of ended runs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import endings
from runs.decisions.operations import ask_again, record_evidence
from runs.models import AuditEntry, Event, Evidence, Operation, Run
from runs.services import request_look_up, settle_operation
from runs.supervisor import verification
from runs.supervisor.behind import Behind
from runs.supervisor.verification import verify_once
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent


def an_unknown_operation(owner, **changes):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    Operation.objects.filter(pk=sent.operation_id).update(next_look_up_at=run.created_at, **changes)
    return Operation.objects.get(pk=sent.operation_id)


def test_an_operation_whose_tool_is_gone_does_not_keep_the_others_waiting(owner):
    gone, other = an_unknown_operation(owner, tool="long_gone"), an_unknown_operation(owner, can_look_up=False)
    assert verify_once() == 0
    gone.refresh_from_db()
    other.refresh_from_db()
    assert (gone.look_ups, other.look_ups) == (1, 1)
    assert (gone.next_look_up_at is None, other.next_look_up_at) == (False, None)


@pytest.mark.parametrize(("look_ups", "seconds"), [(0, 1), (1, 2), (2, 4), (3, 8), (2000, 8)])
def test_a_target_that_cannot_tell_is_asked_later_each_time(owner, look_ups, seconds):
    """Of a target whose answers may land for hours there may be thousands."""
    operation = an_unknown_operation(owner, tool="long_gone", look_ups=look_ups)
    before = timezone.now()
    assert verify_once() == 0
    operation.refresh_from_db()
    assert before + timedelta(seconds=seconds) <= operation.next_look_up_at
    assert operation.next_look_up_at <= timezone.now() + timedelta(seconds=seconds)


def give_up_on(operation):
    """Let the bounded time of the supervisor's own look-ups be over."""
    past = timezone.now() - timedelta(hours=1)
    Run.objects.filter(pk=operation.run_id).update(terminal_at=past)
    Operation.objects.filter(pk=operation.pk).update(horizon_at=past, next_look_up_at=past)
    assert verify_once() == 0
    operation.refresh_from_db()
    assert operation.next_look_up_at is None


def test_an_operator_may_ask_again_after_the_supervisor_gave_up(owner, operator):
    operation = an_unknown_operation(owner, tool="long_gone")
    give_up_on(operation)
    last = Evidence.objects.get()
    assert (last.kind, last.happened, last.detail["found"]) == ("look_up", None, None)
    asked = request_look_up(actor=operator, operation_id=operation.pk)
    assert (asked.state, asked.version) == ("unknown", operation.version)
    assert AuditEntry.objects.get().action == "operation.look_up"
    assert verify_once() == 0
    operation.refresh_from_db()
    assert (operation.look_ups, operation.next_look_up_at) == (2, None)
    assert Evidence.objects.filter(kind="look_up", happened=None).count() == 2


def test_look_ups_of_the_bounded_time_leave_no_row_each(owner):
    an_unknown_operation(owner, tool="long_gone")
    assert verify_once() == 0
    assert Evidence.objects.count() == 0


@pytest.mark.parametrize("change", [{"state": "succeeded"}, {"can_look_up": False}])
def test_what_is_decided_or_cannot_be_looked_up_is_not_asked_for(owner, change):
    operation = an_unknown_operation(owner)
    Operation.objects.filter(pk=operation.pk).update(next_look_up_at=None, **change)
    assert decide(ask_again(operation_id=operation.pk)) == ("decided" if "state" in change else "no_look_up")
    operation.refresh_from_db()
    assert operation.next_look_up_at is None


def test_the_worker_of_a_run_that_goes_on_asks_by_itself(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    Operation.objects.update(next_look_up_at=None)
    assert decide(ask_again(operation_id=sent.operation_id)) == "running"
    assert Operation.objects.get().next_look_up_at is None


def test_a_look_up_does_not_make_the_form_of_an_operator_stale(owner, operator):
    operation = an_unknown_operation(owner, tool="long_gone")
    request_look_up(actor=operator, operation_id=operation.pk)
    give_up_on(operation)
    settled = settle_operation(
        actor=operator, operation_id=operation.pk, version=operation.version, outcome="happened", note="seen"
    )
    assert settled.state == "confirmed"


def test_what_fails_each_time_does_not_keep_the_others_waiting(owner, monkeypatch):
    monkeypatch.setattr(verification, "BATCH", 1)
    broken, good = an_unknown_operation(owner), an_unknown_operation(owner)
    for operation in (broken, good):
        receipt = {"operation_id": operation.pk, "fence": operation.fence, "kind": "receipt", "happened": True}
        decide(record_evidence(**receipt, detail={"proof": "http 201"}), ring=silent)
    run = Run.objects.get(pk=broken.run_id)
    Operation.objects.filter(pk=broken.pk).update(next_look_up_at=run.created_at - timedelta(hours=1))
    Event.objects.create(stream_id=run.stream_id, seq=run.last_seq + 1, type="stray", data="{}")
    behind = Behind()
    assert verify_once(behind) == 0
    assert verify_once(behind) == 1
    good.refresh_from_db()
    assert good.state == "confirmed"
