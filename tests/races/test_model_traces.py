"""The shortest traces of the model's planted bugs, replayed on the real code: each stops where its rule stands.

The model (RULES; one trace for each rule that it cannot do without) says what would break without the rule. What it
says of trees is with the trees; its calls that begin after a cancel, and its blocked loop, are a worker's own
(tests/runs/execution/test_stopping.py, test_lease.py). A trace's last move is the one that must not succeed.
"""

import pytest

from runs.decisions import claims, dispatch, endings, operations, retry, waiting
from runs.decisions.cancels import request_cancel
from runs.models import Question
from runs.states import CancelReason, Status
from tests.races.invariants import check
from tests.races.model_play import Play
from tests.races.two_actors import race


@pytest.fixture
def play(owner):
    return Play(owner)


def test_append_fence(play):
    old = play.claims("a")
    play.lease_expires()
    play.claims("b")
    assert not play.appends(old)


def test_append_status_and_settle_bumps_fence(play):
    old = play.claims("a")
    play.lease_expires()
    assert play.cancels().is_first
    assert play.run.status == Status.CANCELLED
    assert not play.appends(old)


def test_disp_fence(play):
    old = play.claims("a")
    play.lease_expires()
    play.claims("b")
    assert play.dispatches(old) == dispatch.Refused("lost")


def test_disp_status(play):
    fence = play.claims("a")
    play.cancels()
    assert play.dispatches(fence) == dispatch.Refused("cancel")


@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_disp_op(play, effect):
    fence = play.claims("a")
    assert isinstance(play.dispatches(fence, effect=effect), dispatch.Dispatched)
    assert isinstance(play.dispatches(fence, effect=effect), dispatch.InOperation)


def test_disp_no_unknown(play):
    old = play.claims("a")
    play.dispatches(old)
    play.lease_expires()
    new = play.claims("b")
    play.calls_unknown(new)
    assert play.dispatches(new, "2") == dispatch.Refused("unknown_open")


def test_write_not_again(play):
    old = play.claims("a")
    play.dispatches(old)
    play.lease_expires()
    new = play.claims("b")
    assert isinstance(play.dispatches(new), dispatch.InOperation)


def test_fin_status(play):
    fence = play.claims("a")
    sent = play.dispatches(fence)
    play.cancels()
    play.records(fence, sent, "succeeded")
    assert play.finishes(fence) == endings.NotEnded("cancel")


def test_fin_closed(play):
    fence = play.claims("a")
    play.dispatches(fence)
    assert play.finishes(fence) == endings.NotEnded("open")


def test_cancel_open(play):
    play.dispatches(play.claims("a"))
    play.lease_expires()
    assert [effect["outcome"] for effect in play.cancels().effects] == ["pending"]
    assert play.run.status == Status.CANCEL_REQUESTED


def test_settle_open(play):
    play.dispatches(play.claims("a"))
    play.lease_expires()
    play.cancels()
    assert play.supervisor_settles().status == Status.NEEDS_RECONCILIATION


def test_park_closed(play):
    old = play.claims("a")
    play.dispatches(old)
    play.lease_expires()
    new = play.claims("b")
    play.dispatches(new, "2")
    play.calls_unknown(new)
    assert play.parks(new) == endings.NotEnded("open")


def test_ask_closed(play):
    fence = play.claims("a")
    play.dispatches(fence)
    play.asks(fence)
    assert play.waits(fence) == waiting.NotWaiting("open")


def test_answer_guard(play):
    play.asks(play.claims("a"))
    play.cancels()
    assert not play.answers().won
    assert play.run.status == Status.CANCEL_REQUESTED


def test_wait_guard(play):
    fence = play.claims("a")
    play.asks(fence)
    play.answers()
    assert play.waits(fence) == waiting.NotWaiting("woken")


def test_lookup_horizon(play):
    fence = play.claims("a")
    sent = play.dispatches(fence)
    play.records(fence, sent, "unknown")  # it gave up waiting; the request is under way
    play.parks(fence)
    assert play.look_up_settles() == operations.NotSettled("not_yet", play.operation().horizon_at, True)
    play.target.land(play.key("1"))
    assert play.look_up_settles().state == "confirmed"


@pytest.mark.parametrize("gone", [False, True])
def test_verdict_horizon(play, gone):
    play.dispatches(play.claims("a"))
    play.lease_expires()
    play.cancels()
    play.supervisor_settles()
    if gone:
        play.holder_is_gone()
    assert play.verdict(happened=False).reason == "not_yet"
    play.target.land(play.key("1"))
    assert play.look_up_settles().state == "confirmed"


@pytest.mark.parametrize("word", ["refuted", "failed"])
def test_refusal_amb(play, word):
    old = play.claims("a")
    play.dispatches(old, effect="idempotent")
    play.target.land(play.key("1"))  # its reply is lost
    play.lease_expires()
    new = play.claims("b")
    again = play.dispatches(new, effect="idempotent")
    assert play.records(new, again, word).operation_state == "unknown"


def test_evidence(play):
    old = play.claims("a")
    sent = play.dispatches(old)
    play.lease_expires()
    new = play.claims("b")
    play.target.land(play.key("1"))
    assert play.records(old, sent, "succeeded") == claims.Lost()
    play.leaves_evidence(old)
    assert play.calls_unknown(new) is True  # the receipt was taken
    assert play.operation().state == "succeeded"


def test_late_no_flip(play):
    old = play.claims("a")
    sent = play.dispatches(old)
    play.lease_expires()
    new = play.claims("b")
    play.target.land(play.key("1"))
    play.records(new, sent, "succeeded")  # by a look-up
    play.leaves_evidence(old, happened=False)
    operation = play.operation()
    assert (operation.state, operation.contradicted_at is None) == ("succeeded", False)


def test_fence_kept(play):
    old = play.claims("a")
    sent = play.dispatches(old)
    play.lease_expires()
    play.cancels()
    play.supervisor_settles()
    play.horizon_passes()
    play.holder_is_gone()
    assert play.look_up_settles().run_status == Status.CANCELLED
    assert isinstance(play.retries(), retry.Retried)
    new = play.claims("b")
    assert new > old
    again = play.dispatches(new)
    play.target.land(play.key("1"))
    assert play.records(old, sent, "refuted") == claims.Lost()
    assert play.records(new, again, "succeeded").operation_state == "succeeded"


def test_retry_settled(play):
    play.dispatches(play.claims("a"))
    play.lease_expires()
    play.cancels()
    play.supervisor_settles()
    assert play.retries() == retry.NotRetried("not_settled")


def test_retry_reuses(play):
    fence = play.claims("a")
    sent = play.dispatches(fence)
    play.records(fence, sent, "succeeded")
    play.finishes(fence)
    play.retries()
    found = play.dispatches(play.claims("b"))
    assert isinstance(found, dispatch.InOperation)
    assert found.operation["state"] == "succeeded"


def test_revoke(play):
    fence = play.claims("a")  # its loop blocks, its lease is renewed on and on
    play.cancels()
    assert play.supervisor_settles() == endings.NotEnded("cancel")
    play.stop_deadline_passes()
    assert play.supervisor_settles().status == Status.CANCELLED
    assert not play.appends(fence)


def test_sup_checks_status(play):
    play.claims("a")
    play.lease_expires()
    assert isinstance(play.supervisor_settles(), endings.NotEnded)
    assert play.run.status == Status.RUNNING


@pytest.mark.django_db(transaction=True)
def test_ledger_after_lock(owner):
    """The dispatch holds the row while the cancel waits for it; what the cancel decides by is read after its wait."""
    play = Play(owner)
    fence = play.claims("a")
    play.lease_expires()
    call = dispatch.StepCall("1", "tool", "create_invoice", {}, "1" * 64, "write")
    begin = dispatch.dispatch(
        run_id=play.run.pk, fence=fence, worker="worker-a", step=call, nonce=play.run.pk,
        operation=dispatch.OperationCall(play.key("1"), False, True, 0.0),
    )  # fmt: skip
    _, answer = race(begin, request_cancel(run_id=play.run.pk, reason=CancelReason.USER))
    assert [effect["outcome"] for effect in answer.effects] == ["pending"]
    assert check(play.run.pk).status == Status.CANCEL_REQUESTED


# -- append.py: one writer, whose commit's answer may be lost ----------------------------------------------------------
def test_batch_no(play):
    fence = play.claims("a")
    assert play.appends(fence, 1)
    before = play.run.last_seq
    assert play.appends(fence, 1)  # the commit's answer was lost
    assert play.run.last_seq == before
    assert play.appends(fence, 2)


def test_row_lock(play):
    fence = play.claims("a")
    play.appends(fence, 1)
    play.asks(fence)
    play.answers()
    assert play.appends(fence, 2)  # a command of the API has appended in between; check() sees no hole
    assert Question.objects.get().state == "answered"
