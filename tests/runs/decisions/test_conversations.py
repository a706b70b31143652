"""The next message of a conversation: at once, refused, waiting, or in place of the active run."""

from typing import Any

import pytest

from runs.database import decide
from runs.decisions import cancels, claims, conversations, creation, endings, operations, retry
from runs.ids import new_id
from runs.models import Attempt, Conversation, NextMessage, Operation, OutboxRow, Run
from runs.states import CancelReason, OnBusy, Status
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def a_new(owner: Any, prompt: str = "hello", **more: Any) -> creation.NewRun:
    fields: dict[str, Any] = {
        "tenant_id": owner.tenant.pk, "user_id": owner.user.pk, "agent": "chat", "title": prompt,
        "input": {"prompt": prompt}, "metadata": {}, "deadline_seconds": 600.0, "on_disconnect": "continue",
        "grace_seconds": None, "idempotency_key": None, "idempotency_digest": None,
    }  # fmt: skip
    return creation.NewRun(**(fields | more))


def a_first_turn(owner: Any, **more: Any) -> Run:
    row = decide(creation.create(a_new(owner, **more), conversation_id=new_id()), ring=silent)
    assert row is not None
    return Run.objects.get(pk=row["id"])


def send(owner: Any, run: Run, on_busy: OnBusy = OnBusy.REJECT, **more: Any) -> Any:
    new = a_new(owner, **more)
    return decide(conversations.send(conversation_id=run.conversation_id, new=new, on_busy=on_busy), ring=silent)


def finish(run: Run, status: Status = Status.COMPLETED) -> Any:
    run.refresh_from_db()
    fence = a_claim(run) if run.lease_owner is None else run.fence
    return decide(endings.finish_run(run_id=run.pk, fence=fence, status=status, result="r"), ring=silent)


def turns(run: Run) -> list[tuple[int, str, str]]:
    found = Run.objects.filter(conversation=run.conversation_id).order_by("turn")
    return [(one.turn, one.title, one.status) for one in found]


def test_a_run_begins_a_conversation_as_its_first_turn(owner):
    run = a_first_turn(owner)
    conversation = Conversation.objects.get(pk=run.conversation_id)
    assert (conversation.turns, run.turn, run.history) == (1, 1, None)
    assert (conversation.created_by, conversation.tenant) == (owner.user, owner.tenant)


def test_a_message_to_a_free_conversation_is_a_run_at_once(owner):
    run = a_first_turn(owner)
    finish(run)
    sent = send(owner, run, prompt="and then?")
    assert isinstance(sent, conversations.Started)
    assert turns(run) == [(1, "hello", "completed"), (2, "and then?", "queued")]
    assert OutboxRow.objects.filter(run=sent.run_id).exists()
    assert types_of(Run.objects.get(pk=sent.run_id)) == ["run.created"]
    assert [m["role"] for m in Run.objects.get(pk=sent.run_id).history] == ["user", "assistant"]


@pytest.mark.parametrize("status", ["queued", "running", "cancelling"])
def test_a_busy_conversation_refuses_by_default_and_names_the_run(owner, status):
    run = a_first_turn(owner)
    if status != "queued":
        a_claim(run)
    if status == "cancelling":
        decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert send(owner, run) == conversations.NotSent("busy", run.pk)
    assert not NextMessage.objects.exists()
    assert len(turns(run)) == 1


def test_a_waiting_message_becomes_a_run_in_the_transaction_that_ends_the_active_one(owner):
    run = a_first_turn(owner)
    a_claim(run)
    waits = send(owner, run, OnBusy.ENQUEUE, prompt="second", idempotency_key="k", idempotency_digest="d")
    assert isinstance(waits, conversations.Waits)
    assert len(turns(run)) == 1
    finish(run)
    assert turns(run) == [(1, "hello", "completed"), (2, "second", "queued")]
    message = NextMessage.objects.get()
    assert message.run.turn == 2
    assert OutboxRow.objects.filter(run=message.run).exists()
    assert message.run.deadline_at > message.run.created_at


def test_messages_wait_in_their_order_and_each_has_its_turn(owner):
    run = a_first_turn(owner)
    for prompt in ("second", "third"):
        send(owner, run, OnBusy.ENQUEUE, prompt=prompt)
    finish(run)
    assert [title for _, title, _ in turns(run)] == ["hello", "second"]
    finish(Run.objects.get(turn=2))
    assert turns(run)[-1] == (3, "third", "queued")


def test_a_message_does_not_overtake_one_that_waits(owner):
    """Nothing is active any more, but a message waits: a new one goes behind it, whatever it wants."""
    run = a_first_turn(owner)
    send(owner, run, OnBusy.ENQUEUE, prompt="second")
    Run.objects.filter(pk=run.pk).update(status="completed", has_result=True, terminal_at=run.created_at)
    assert isinstance(send(owner, run, prompt="third"), conversations.Waits)


def test_a_stop_lets_the_waiting_message_begin(owner):
    run = a_first_turn(owner)
    a_claim(run)
    send(owner, run, OnBusy.ENQUEUE, prompt="second")
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert len(turns(run)) == 1
    decide(endings.end_cancel(run_id=run.pk, fence=Run.objects.get(pk=run.pk).fence), ring=silent)
    assert turns(run) == [(1, "hello", "cancelled"), (2, "second", "queued")]


def test_a_stop_of_a_queued_run_lets_the_waiting_message_begin_at_once(owner):
    run = a_first_turn(owner)
    send(owner, run, OnBusy.ENQUEUE, prompt="second")
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert turns(run) == [(1, "hello", "cancelled"), (2, "second", "queued")]


def in_doubt(owner: Any, run: Run) -> Operation:
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    return Operation.objects.get(pk=sent.operation_id)


def settle(operation: Operation) -> None:
    verdict = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=True, source="verdict", detail={}
    )
    assert isinstance(decide(verdict, ring=silent), operations.Settled)


def test_after_an_end_in_doubt_the_message_waits_for_the_verdict(owner):
    run = a_first_turn(owner)
    send(owner, run, OnBusy.ENQUEUE, prompt="second")
    operation = in_doubt(owner, run)
    assert turns(run) == [(1, "hello", "needs_reconciliation")]
    settle(operation)
    assert turns(run) == [(1, "hello", "failed"), (2, "second", "queued")]


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.INTERRUPT])
def test_a_message_to_a_conversation_in_doubt_waits(owner, on_busy):
    run = a_first_turn(owner)
    operation = in_doubt(owner, run)
    assert send(owner, run) == conversations.NotSent("in_doubt", run.pk)
    assert isinstance(send(owner, run, on_busy, prompt="second"), conversations.Waits)
    settle(operation)
    assert turns(run)[-1] == (2, "second", "queued")


def test_an_interrupt_of_a_queued_run_begins_at_once(owner):
    run = a_first_turn(owner)
    sent = send(owner, run, OnBusy.INTERRUPT, prompt="second")
    assert isinstance(sent, conversations.Started)
    assert turns(run) == [(1, "hello", "cancelled"), (2, "second", "queued")]
    run.refresh_from_db()
    assert (run.cancel_reason, run.cancel_by) == ("user", owner.user)


def test_an_interrupt_of_a_running_run_waits_for_its_end(owner):
    run = a_first_turn(owner)
    fence = a_claim(run)
    assert isinstance(send(owner, run, OnBusy.INTERRUPT, prompt="second"), conversations.Waits)
    run.refresh_from_db()
    assert run.status == Status.CANCEL_REQUESTED
    first_cancel = run.cancel_id
    assert isinstance(send(owner, run, OnBusy.INTERRUPT, prompt="third"), conversations.Waits)
    decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    assert (run.cancel_id, turns(run)[-1]) == (first_cancel, (2, "second", "queued"))


def test_a_supervisors_end_lets_the_waiting_message_begin_too(owner):
    run = a_first_turn(owner)
    a_claim(run)
    send(owner, run, OnBusy.INTERRUPT, prompt="second")
    expire(run)
    decide(endings.end_cancel(run_id=run.pk), ring=silent)
    assert turns(run)[-1] == (2, "second", "queued")


def test_the_same_key_sends_one_message_before_and_after_it_became_a_run(owner):
    run = a_first_turn(owner)
    key = {"idempotency_key": "k", "idempotency_digest": "d"}
    waits = send(owner, run, OnBusy.ENQUEUE, **key)
    assert send(owner, run, OnBusy.ENQUEUE, **key) == conversations.Waits(waits.message_id, is_new=False)
    other = send(owner, run, OnBusy.ENQUEUE, idempotency_key="k", idempotency_digest="e")
    assert other == conversations.NotSent("mismatch")
    finish(run)
    started = send(owner, run, OnBusy.ENQUEUE, **key)
    assert started == conversations.Started(NextMessage.objects.get().run_id, is_new=False)
    assert len(turns(run)) == 2


def test_the_key_of_a_run_is_no_key_for_a_message(owner):
    run = a_first_turn(owner, idempotency_key="k", idempotency_digest="d")
    assert send(owner, run, OnBusy.ENQUEUE, idempotency_key="k", idempotency_digest="e") == (
        conversations.NotSent("mismatch")
    )
    repeat = send(owner, run, OnBusy.ENQUEUE, idempotency_key="k", idempotency_digest="d")
    assert repeat == conversations.Started(run.pk, is_new=False)


def test_a_key_that_another_run_has_taken_meanwhile_keeps_no_end_from_being_written(owner):
    """Each end would have been rolled back, a stop's too: the run could never end."""
    run = a_first_turn(owner)
    key = {"idempotency_key": "k", "idempotency_digest": "d"}
    assert isinstance(send(owner, run, OnBusy.ENQUEUE, prompt="second", **key), conversations.Waits)
    assert decide(creation.create(a_new(owner, idempotency_key="k", idempotency_digest="e")), ring=silent)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert turns(run) == [(1, "hello", "cancelled"), (2, "second", "queued")]


def test_there_is_no_message_to_a_conversation_that_is_not_there(owner):
    new = a_new(owner)
    sent = conversations.send(conversation_id=new_id(), new=new, on_busy=OnBusy.ENQUEUE)
    assert decide(sent, ring=silent) == conversations.NotSent("missing")


def test_a_message_that_was_taken_back_never_begins(owner):
    run = a_first_turn(owner)
    waits = send(owner, run, OnBusy.ENQUEUE, prompt="second")
    assert decide(conversations.withdraw(message_id=waits.message_id), ring=silent) is True
    assert decide(conversations.withdraw(message_id=waits.message_id), ring=silent) is False
    finish(run)
    assert len(turns(run)) == 1


def test_a_message_that_has_become_a_run_is_not_taken_back(owner):
    run = a_first_turn(owner)
    waits = send(owner, run, OnBusy.ENQUEUE, prompt="second")
    finish(run)
    assert decide(conversations.withdraw(message_id=waits.message_id), ring=silent) is False
    assert NextMessage.objects.get().withdrawn_at is None
    assert decide(conversations.withdraw(message_id=new_id()), ring=silent) is False


def again(run: Run) -> Any:
    return decide(retry.retry(retry.Wish(run_id=run.pk, user_id=run.created_by_id, user_name="owner")), ring=silent)


def test_a_run_is_not_retried_while_another_one_of_its_conversation_is_active(owner):
    run = a_first_turn(owner)
    finish(run)
    second = send(owner, run, prompt="second")
    assert again(run) == retry.NotRetried("busy", run_id=second.run_id)
    finish(Run.objects.get(pk=second.run_id))
    assert isinstance(again(run), retry.Retried)
    assert send(owner, run) == conversations.NotSent("busy", run.pk)


def test_a_retry_keeps_the_history_that_its_run_began_with(owner):
    run = a_first_turn(owner)
    finish(run)
    second = Run.objects.get(pk=send(owner, run, prompt="second").run_id)
    finish(second)
    assert isinstance(again(second), retry.Retried)
    claimed = decide(claims.claim(run_id=second.pk, worker="w", lease_seconds=5), ring=silent)
    assert claimed.run["history"] == second.history
    assert Attempt.objects.filter(run=second).count() == 2


def test_a_message_that_was_taken_back_holds_up_no_other(owner):
    run = a_first_turn(owner)
    decide(conversations.withdraw(message_id=send(owner, run, OnBusy.ENQUEUE).message_id), ring=silent)
    finish(run)
    assert isinstance(send(owner, run, prompt="and then?"), conversations.Started)


def test_a_message_that_has_had_its_turn_holds_up_no_other(owner):
    run = a_first_turn(owner)
    send(owner, run, OnBusy.ENQUEUE, prompt="second")
    finish(run)
    finish(Run.objects.get(turn=2))
    assert isinstance(send(owner, run, prompt="third"), conversations.Started)


@pytest.mark.parametrize("on_busy", [OnBusy.REJECT, OnBusy.ENQUEUE])
def test_the_same_key_of_somebody_else_is_another_message(owner, teammate, on_busy):
    """Whether the first one with the key is a run or a message that waits."""
    run = a_first_turn(owner)
    key = {"idempotency_key": "k", "idempotency_digest": "d"}
    if on_busy is OnBusy.REJECT:
        finish(run)
    send(owner, run, on_busy, **key)
    sent = send(teammate, run, OnBusy.ENQUEUE, **key)
    assert isinstance(sent, conversations.Waits)
    assert sent.is_new
