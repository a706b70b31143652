"""A message that meets the end of the active run, or another message: one of the two sees the other."""

from typing import Any

import pytest
from django.db import connection

from runs.database import decide
from runs.decisions import cancels, claims, conversations, endings, operations, retry
from runs.models import NextMessage, Operation, Run
from runs.states import CancelReason, OnBusy, Status
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.races.invariants import check
from tests.races.two_actors import race
from tests.runs.decisions.test_conversations import a_first_turn, a_new, turns

pytestmark = pytest.mark.django_db(transaction=True)


def send(owner: Any, run: Run, on_busy: OnBusy = OnBusy.ENQUEUE, **more: Any) -> Any:
    return conversations.send(conversation_id=run.conversation_id, new=a_new(owner, **more), on_busy=on_busy)


def finish(run: Run, fence: int) -> Any:
    return endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result="r")


def stop(run: Run) -> Any:
    return cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER)


def check_all() -> None:
    """Every run is sound, at most one of each conversation is active, and nothing waits for a free conversation."""
    for run in Run.objects.all():
        check(run.pk)
    with connection.cursor() as cursor:
        cursor.execute(
            """select count(*) from runs_nextmessage m where run_id is null and withdrawn_at is null and not exists (
                 select 1 from runs_run r where r.conversation_id = m.conversation_id
                   and r.status not in ('completed', 'failed', 'cancelled'))"""
        )
        assert cursor.fetchone() == (0,), "a message waits for nobody"


def test_a_message_that_waits_behind_the_end_is_a_run_at_once(owner):
    """End and message: the message has looked at an active run before the end's commit."""
    run = a_first_turn(owner)
    _, sent = race(finish(run, a_claim(run)), send(owner, run, prompt="second"))
    assert isinstance(sent, conversations.Started)
    assert [status for _, _, status in turns(run)] == ["completed", "queued"]
    check_all()


def test_an_end_that_waits_behind_a_message_starts_it(owner):
    """Message and end: the end has ended the run, and waits for the conversation."""
    run = a_first_turn(owner)
    sent, _ = race(send(owner, run, prompt="second"), finish(run, a_claim(run)))
    assert isinstance(sent, conversations.Waits)
    assert [status for _, _, status in turns(run)] == ["completed", "queued"]
    check_all()


def test_of_two_messages_to_a_free_conversation_one_is_the_run_and_one_waits(owner):
    run = a_first_turn(owner)
    decide(finish(run, a_claim(run)), ring=silent)
    first, second = race(send(owner, run, prompt="a"), send(owner, run, prompt="b"))
    assert (type(first), type(second)) == (conversations.Started, conversations.Waits)
    check_all()


def test_one_message_sent_twice_at_once_is_one(owner):
    run = a_first_turn(owner)
    key = {"idempotency_key": "k", "idempotency_digest": "d"}
    first, second = race(send(owner, run, **key), send(owner, run, **key))
    assert second == conversations.Waits(first.message_id, is_new=False)
    assert NextMessage.objects.count() == 1


def test_of_one_key_sent_to_two_free_conversations_at_once_one_is_a_run(owner):
    runs = [a_first_turn(owner) for _ in range(2)]
    for run in runs:
        decide(finish(run, a_claim(run)), ring=silent)
    key = {"idempotency_key": "k", "idempotency_digest": "d"}
    first, second = race(*(send(owner, run, **key) for run in runs))
    assert isinstance(first, conversations.Started)
    assert second == conversations.NotSent("moved")
    assert decide(send(owner, runs[1], **key), ring=silent) == conversations.Started(first.run_id, is_new=False)
    assert isinstance(decide(send(owner, runs[1]), ring=silent), conversations.Started)
    assert [turn for turn, _, _ in turns(runs[1])] == [1, 2]


def test_an_interrupt_that_waits_behind_the_end_is_a_run_at_once(owner):
    run = a_first_turn(owner)
    _, sent = race(finish(run, a_claim(run)), send(owner, run, OnBusy.INTERRUPT, prompt="second"))
    assert isinstance(sent, conversations.Started)
    assert Run.objects.get(pk=run.pk).cancel_id is None
    check_all()


def test_an_end_that_waits_behind_an_interrupt_ends_as_stopped_and_starts_the_message(owner):
    run = a_first_turn(owner)
    fence = a_claim(run)
    sent, ended = race(send(owner, run, OnBusy.INTERRUPT, prompt="second"), finish(run, fence))
    assert (type(sent), ended) == (conversations.Waits, endings.NotEnded("cancel"))
    decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)
    assert [status for _, _, status in turns(run)] == ["cancelled", "queued"]
    check_all()


def test_two_interrupts_at_once_stop_the_run_once_and_both_have_their_turn(owner):
    run = a_first_turn(owner)
    fence = a_claim(run)
    race(send(owner, run, OnBusy.INTERRUPT, prompt="a"), send(owner, run, OnBusy.INTERRUPT, prompt="b"))
    decide(endings.end_cancel(run_id=run.pk, fence=fence), ring=silent)
    assert [title for _, title, _ in turns(run)] == ["hello", "a"]
    assert NextMessage.objects.filter(run=None).count() == 1
    check_all()


def test_an_interrupt_that_meets_another_run_than_it_looked_for_looks_again(owner):
    """The active run ends and the waiting message becomes the active one, while the interrupt waits for the first."""
    run = a_first_turn(owner)
    decide(send(owner, run, prompt="second"), ring=silent)
    _, sent = race(finish(run, a_claim(run)), send(owner, run, OnBusy.INTERRUPT, prompt="third"))
    assert sent == conversations.NotSent("moved")
    assert NextMessage.objects.count() == 1
    check_all()


def test_a_message_taken_back_while_the_run_ends_never_begins(owner):
    run = a_first_turn(owner)
    waits = decide(send(owner, run), ring=silent)
    taken, _ = race(conversations.withdraw(message_id=waits.message_id), finish(run, a_claim(run)))
    assert (taken, len(turns(run))) == (True, 1)
    check_all()


def test_a_message_that_began_while_it_is_taken_back_stays(owner):
    run = a_first_turn(owner)
    waits = decide(send(owner, run), ring=silent)
    _, taken = race(finish(run, a_claim(run)), conversations.withdraw(message_id=waits.message_id))
    assert (taken, len(turns(run))) == (False, 2)
    check_all()


def test_a_stop_that_ends_a_queued_run_meets_a_message(owner):
    for first, second in ((stop, send), (send, stop)):
        run = a_first_turn(owner)
        made = [act(owner, run) if act is send else act(run) for act in (first, second)]
        race(*made)
        assert [status for _, _, status in turns(run)] == ["cancelled", "queued"]
    check_all()


def test_a_retry_and_a_message_at_once_make_one_active_run(owner):
    for is_retry_first in (True, False):
        run = a_first_turn(owner)
        decide(finish(run, a_claim(run)), ring=silent)
        again = retry.retry(retry.Wish(run_id=run.pk, user_id=owner.user.pk, user_name="owner"))
        message = send(owner, run, prompt="second")
        if is_retry_first:
            made, sent = race(again, message)
            assert (made.number, type(sent)) == (2, conversations.Waits)
        else:
            sent, made = race(message, again)
            assert (made.reason, type(sent)) == ("busy", conversations.Started)
        check_all()


def test_a_message_that_waits_behind_the_verdict_is_a_run_at_once(owner):
    run = a_first_turn(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    operation = Operation.objects.get(pk=sent.operation_id)
    verdict = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=True, source="verdict", detail={}
    )
    _, message = race(verdict, send(owner, run, prompt="second"))
    assert isinstance(message, conversations.Started)
    check_all()


def test_a_claim_of_the_next_run_needs_nothing_of_the_one_before(owner):
    run = a_first_turn(owner)
    decide(send(owner, run, prompt="second"), ring=silent)
    decide(finish(run, a_claim(run)), ring=silent)
    second = Run.objects.get(turn=2)
    claimed = decide(claims.claim(run_id=second.pk, worker="w", lease_seconds=60.0), ring=silent)
    assert isinstance(claimed, claims.Claimed)
    check_all()


def test_an_interrupt_that_meets_a_run_which_has_just_begun_looks_again(owner):
    """Nothing was active when it looked, so it holds no run's row: that comes before the conversation's."""
    run = a_first_turn(owner)
    decide(finish(run, a_claim(run)), ring=silent)
    begun, sent = race(send(owner, run, prompt="a"), send(owner, run, OnBusy.INTERRUPT, prompt="b"))
    assert isinstance(begun, conversations.Started)
    assert sent == conversations.NotSent("moved")
    check_all()
