"""Who holds a run: two that want it, one that gives it back, and one that wakes too late."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from runs import services
from runs.decisions import append, claims, controls, endings, operations, steps
from runs.frames import Draft
from runs.models import Event, Operation, Run
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome
from tests.races.invariants import check
from tests.races.two_actors import a_connection, race, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def a_claim_by(run: Run, worker: str) -> Any:
    return claims.claim(run_id=run.pk, worker=worker, lease_seconds=60.0)


def expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize("was_held", [False, True])
def test_of_two_claims_one_holds_the_run(owner, was_held):
    """Two workers: the second has sent its statement, on a row that is free, before the first's commit."""
    run = a_run(owner)
    if was_held:
        a_claim(run, "dead")
        expire(run)
    first, second = race(a_claim_by(run, "worker-a"), a_claim_by(run, "worker-b"))
    assert isinstance(first, claims.Claimed)
    assert second == claims.NotClaimable("running")
    run = check(run.pk)
    assert (run.lease_owner, run.fence) == ("worker-a", first.fence)


def test_a_claim_that_waits_behind_a_release_gets_the_run(owner):
    """Release and claim: the claim has sent its statement, on a row with a live lease, before the release's commit."""
    run = a_run(owner)
    fence = a_claim(run)
    _, claimed = race(claims.release(run_id=run.pk, fence=fence), a_claim_by(run, "worker-b"))
    assert isinstance(claimed, claims.Claimed)
    assert claimed.fence == fence + 2
    assert check(run.pk).lease_owner == "worker-b"


def test_an_append_that_waits_behind_a_take_over_stores_nothing(owner):
    """A new claim and the old holder's append, whose statement was sent before the claim's commit."""
    run = a_run(owner)
    old = a_claim(run)
    expire(run)
    late = append.append_many([append.Batch(run.pk, old, 1, [Draft("text.delta", '{"type":"text.delta"}')])])
    _, stored = race(a_claim_by(run, "worker-b"), late)
    assert stored == {}
    assert not Event.objects.filter(type="text.delta").exists()
    check(run.pk)


def test_a_take_over_that_waits_behind_an_append_follows_it_in_the_log(owner):
    """The old holder's append and a new claim, whose statement was sent before the append's commit."""
    run = a_run(owner)
    old = a_claim(run)
    expire(run)
    drafts = [Draft("text.delta", '{"type":"text.delta","data":{}}')] * 3
    stored, claimed = race(append.append_many([append.Batch(run.pk, old, 1, drafts)]), a_claim_by(run, "worker-b"))
    assert isinstance(claimed, claims.Claimed)
    types = list(Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("type", flat=True))
    first = stored[run.pk]
    assert types[first - 1 : first + 4] == ["text.delta"] * 3 + ["claim.lost", "claim.started"]
    check(run.pk)


def test_a_frozen_holder_does_not_renew_what_was_taken_over_meanwhile(owner):
    """A new claim and the old holder's heartbeat, whose statement was sent before the claim's commit."""
    run = a_run(owner)
    old = a_claim(run)
    expire(run)
    heartbeat = claims.renew(worker="worker-a", held={run.pk: old}, lease_seconds=60.0)
    _, words = race(a_claim_by(run, "worker-b"), heartbeat)
    assert words == {run.pk: "LOST"}
    assert check(run.pk).lease_owner == "worker-b"


def test_a_sweep_does_not_take_a_lease_that_was_renewed_meanwhile(owner):
    """The heartbeat of a slow holder and the supervisor, who has read the row as overdue before its commit."""
    run = a_run(owner)
    fence = a_claim(run)
    expire(run)
    heartbeat = claims.renew(worker="worker-a", held={run.pk: fence}, lease_seconds=60.0)
    words, taken = race(heartbeat, claims.expire_lease(run_id=run.pk))
    assert (words, taken) == ({run.pk: "HELD"}, False)
    assert check(run.pk).fence == fence


@pytest.mark.parametrize("verdicts", [(True, False), (False, True), (True, True)])
def test_of_two_verdicts_the_first_stands(owner, verdicts):
    """Two operators who read the same version: the second has sent its verdict before the first's commit."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    version = Operation.objects.get(pk=sent.operation_id).version
    fields: dict[str, Any] = {"operation_id": sent.operation_id, "version": version, "detail": {}, "override": True}
    first, second = (operations.settle(**fields, happened=happened, source="verdict") for happened in verdicts)
    settled, late = race(first, second)
    assert settled.state == ("confirmed" if verdicts[0] else "refuted")
    assert late.reason == "decided"
    assert check(run.pk).unknown_ops == 0


@pytest.mark.parametrize("attach_is_first", [True, False])
def test_a_connection_that_comes_as_the_run_finishes_is_closed_or_refused(owner, attach_is_first):
    """Attach and the holder's finish, which has read the row, and sent its end, before the attach committed."""
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    finish = endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result=1)
    attach = controls.attach(run_id=run.pk, user_id=owner.user.pk)
    if attach_is_first:
        attached, ended = race(attach, finish)
        assert attached is not None
    else:
        ended, attached = race(finish, attach)
        assert attached is None
    assert ended == endings.Ended(Status.COMPLETED)
    assert check(run.pk).control_count == 0


@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_step_that_is_finished_twice_at_once_is_counted_once(owner, kind):
    """One finish whose answer was lost, and its repeat, which has read the step as open before the first committed."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, kind=kind, effect="read")
    a_dispatch(run, fence, path="2", kind="model")  # so that a second count would not run below zero
    fields: dict[str, Any] = {"run_id": run.pk, "fence": fence, "step_id": sent.step_id, "state": "finished"}
    usage = {"input_tokens": 3, "output_tokens": 5}
    both = [steps.finish_step(**fields, usage=usage) for _ in range(2)]
    assert race(*both) == (steps.Done(None), steps.Done(None))
    run = check(run.pk)
    assert (run.open_ops, run.input_tokens, run.output_tokens) == (1, 3, 5)


def test_a_receipt_that_waits_behind_a_take_over_changes_nothing(owner):
    """A new claim and the old holder's receipt, which has read the row as its own before the claim's commit (H7)."""
    run = a_run(owner)
    old = a_claim(run)
    sent = a_dispatch(run, old)
    expire(run)
    outcome = steps.OperationOutcome("succeeded", {"proof": "http 201"}, gave_up=True)
    receipt = steps.finish_step(run_id=run.pk, fence=old, step_id=sent.step_id, state="finished", outcome=outcome)
    _, late = race(a_claim_by(run, "worker-b"), receipt)
    assert late == claims.Lost()
    operation = Operation.objects.get(pk=sent.operation_id)
    assert (operation.state, operation.receipt, operation.step.state) == ("dispatched", None, "open")
    assert check(run.pk).open_ops == 1


def test_two_creates_with_one_key_make_one_run_and_both_get_it(owner):
    """Two callers with the same idempotency key: both have sent their insert, and wait at a lock of the table."""

    def create() -> services.Created:
        try:
            return services.create_run(actor=owner, agent="chat", input={"prompt": "hello"}, idempotency_key="k")
        finally:
            connections.close_all()

    waiting = """select count(*) as n from pg_locks where relation = 'runs_run'::regclass and not granted"""
    with a_connection() as door, a_connection(autocommit=True) as watch, ThreadPoolExecutor(2) as pool:
        door.execute("lock table runs_run in share mode")
        both = [pool.submit(create) for _ in range(2)]
        wait_until(lambda: watch.execute(waiting).fetchone()["n"] == 2)
        door.commit()
        made = [future.result(60) for future in both]
    assert sorted(created.is_new for created in made) == [False, True]
    assert made[0].run.pk == made[1].run.pk
    assert check(made[0].run.pk).status == Status.QUEUED
