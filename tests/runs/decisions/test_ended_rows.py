"""Both halves of RULES H1: an end takes the fence, and no guard trusts the fence alone.

Here the row has ended and its fence is still the holder's, which no decision does; each guard must refuse by the
status. (That every end takes the fence is tested in test_endings.py.)
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import append, cancels, claims, controls, dispatch, endings, operations, steps, waiting
from runs.decisions.dispatch import Refused, StepCall
from runs.frames import Draft
from runs.ids import new_id
from runs.models import Event, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, silent

READ = StepCall("9", "tool", "read_page", {}, "d" * 64, "read")
ASK = StepCall("9", "ask", "ask", {}, "d" * 64)
TEXT = StepCall("9", "text", "say", {}, "d" * 64)
TIMER = StepCall("9", "timer", "sleep", {}, "d" * 64)
FILE = {"name": "a", "content_type": "text/plain", "content": b"", "sha256": ""}

type Make = Callable[[dict[str, Any], Any], Any]
DECISIONS: dict[str, tuple[Make, Any]] = {
    "append": (lambda ids, sent: append.append_many([append.Batch(*ids.values(), 1, [Draft("x", "{}")])]), {}),
    "release": (lambda ids, sent: claims.release(**ids, even_in_flight=True), claims.Lost()),
    "see_cancel": (lambda ids, sent: claims.see_cancel(**ids), None),
    "dispatch": (
        lambda ids, sent: dispatch.dispatch(**ids, worker="worker-a", step=READ, nonce=new_id()),
        Refused("not_running"),
    ),
    "finish_step": (
        lambda ids, sent: steps.finish_step(**ids, step_id=sent.step_id, state="finished"),
        claims.Lost(),
    ),
    "instant_step": (
        lambda ids, sent: steps.instant_step(**ids, step=TEXT, result=1, facts=[]),
        Refused("not_running"),
    ),
    "set_title": (lambda ids, sent: steps.set_title(**ids, title="t"), claims.Lost()),
    "store_artifact": (lambda ids, sent: steps.store_artifact(**ids, artifact_id=new_id(), **FILE), claims.Lost()),
    "ask": (
        lambda ids, sent: waiting.ask(
            **ids, step=ASK, question_id=new_id(), prompt="?", schema={}, timeout_seconds=60.0
        ),
        Refused("not_running"),
    ),
    "set_timer": (lambda ids, sent: waiting.set_timer(**ids, step=TIMER, seconds=1.0), Refused("not_running")),
    "wait": (lambda ids, sent: waiting.wait(**ids, wakes=0, waiting_for="input"), waiting.NotWaiting("open")),
    "finish_run": (lambda ids, sent: endings.finish_run(**ids, status=Status.COMPLETED), endings.NotEnded("ended")),
    "park": (lambda ids, sent: endings.park(**ids), endings.NotEnded("ended")),
    "end_cancel": (lambda ids, sent: endings.end_cancel(**ids), endings.NotEnded("ended")),
    "mark_unknown": (
        lambda ids, sent: operations.mark_unknown(**ids, operation_id=new_id(), message="m"),
        claims.Lost(),
    ),
    "attach": (lambda ids, sent: controls.attach(run_id=ids["run_id"], user_id=1), None),
    "fire_timer": (lambda ids, sent: waiting.fire_timer(run_id=ids["run_id"]), False),
    "deadline": (
        lambda ids, sent: cancels.request_cancel(run_id=ids["run_id"], reason=CancelReason.DEADLINE, overdue_only=True),
        None,
    ),
}


@pytest.fixture
def ended(owner):
    """A run that has failed while a read was in flight, with the fence of its row."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, effect="read")
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        status="failed",
        terminal_at=now,
        lease_until=None,
        lease_owner=None,
        open_ops=0,
        deadline_at=now,
        fence=fence + 1,
    )
    return run, fence + 1, sent


def rows_of(run: Run) -> Any:
    return Run.objects.filter(pk=run.pk).values().get(), Step.objects.count(), Event.objects.count()


@pytest.mark.parametrize("name", DECISIONS)
def test_an_ended_run_takes_nothing_more_even_from_the_fence_of_its_row(ended, name):
    run, fence, sent = ended
    before = rows_of(run)
    make, refusal = DECISIONS[name]
    assert decide(make({"run_id": run.pk, "fence": fence}, sent), ring=silent) == refusal
    assert rows_of(run) == before


def test_an_ended_run_is_not_renewed_and_not_claimed(ended):
    run, fence, _ = ended
    before = rows_of(run)
    words = decide(claims.renew(worker="worker-a", held={run.pk: fence}, lease_seconds=5.0), ring=silent)
    claimed = decide(claims.claim(run_id=run.pk, worker="worker-b", lease_seconds=5.0), ring=silent)
    assert (words, claimed) == ({run.pk: "LOST"}, claims.NotClaimable("failed"))
    assert rows_of(run) == before
