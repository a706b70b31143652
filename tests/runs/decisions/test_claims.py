"""Claims: one holder at a time, a fence that only grows, and what a new holder cleans up."""

import threading
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from runs import frames
from runs.database import decide
from runs.decisions import append, cancels, claims, endings
from runs.models import Event, OutboxRow, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, a_tenant, an_actor, silent


def types_of(run: Run) -> list[str]:
    run.refresh_from_db()
    return list(Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("type", flat=True))


def expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_a_claim_starts_a_queued_run_and_takes_its_outbox_row(owner):
    run = a_run(owner)
    assert a_claim(run) == 1
    run.refresh_from_db()
    assert (run.status, run.lease_owner) == (Status.RUNNING, "worker-a")
    assert types_of(run) == ["run.created", "claim.started", "run.started"]
    assert not OutboxRow.objects.filter(run=run).exists()


def test_a_second_worker_cannot_claim_under_a_live_lease(owner):
    run = a_run(owner)
    a_claim(run)
    answer = decide(claims.claim(run_id=run.pk, worker="worker-b", lease_seconds=5), ring=silent)
    assert answer == claims.NotClaimable("running")


def test_a_claim_that_waits_for_a_release_gets_the_run(transactional_db):
    """Two actors: a holder releases, and has not committed; another worker claims meanwhile and waits for the row."""
    run = a_run(an_actor("owner", a_tenant("acme"), "runner"))
    fence = a_claim(run)
    answers = []

    def claim_elsewhere() -> None:
        answers.append(decide(claims.claim(run_id=run.pk, worker="worker-b", lease_seconds=5), ring=silent))
        connection.close()

    other = threading.Thread(target=claim_elsewhere)
    with transaction.atomic():
        decide(claims.release(run_id=run.pk, fence=fence), ring=silent)
        other.start()
        while not somebody_waits_for_a_lock():
            assert other.is_alive()
    other.join()
    assert isinstance(answers[0], claims.Claimed)


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select exists (select 1 from pg_locks where not granted)")
        return bool(cursor.fetchone()[0])


def test_a_claim_after_an_expired_lease_has_a_higher_fence_and_supersedes_open_calls(owner):
    run = a_run(owner)
    fence = a_claim(run)
    model = a_dispatch(run, fence, path="1", kind="model")
    write = a_dispatch(run, fence, path="2", effect="write")
    expire(run)
    assert a_claim(run, "worker-b") == fence + 1
    run.refresh_from_db()
    assert Step.objects.get(pk=model.step_id).state == "superseded"
    assert Step.objects.get(pk=write.step_id).state == "open"
    assert run.open_ops == 1  # the write is still in flight; the model call is not
    ends = Event.objects.filter(stream_id=run.stream_id, type="text.end")
    assert [frames.decode(e.seq, e.data)["data"]["reason"] for e in ends] == ["superseded"]


def test_a_late_worker_cannot_append_after_another_claim(owner):
    run = a_run(owner)
    old = a_claim(run)
    expire(run)
    new = a_claim(run, "worker-b")
    draft = frames.Draft("text.delta", '{"type":"text.delta"}')
    stored = decide(append.append_many([append.Batch(run.pk, old, 1, [draft])]), ring=silent)
    assert stored == {}
    assert decide(append.append_many([append.Batch(run.pk, new, 1, [draft])]), ring=silent) != {}


def test_a_batch_sent_twice_is_stored_once_and_answered_alike(owner):
    run = a_run(owner)
    fence = a_claim(run)
    batch = append.Batch(run.pk, fence, 1, [frames.Draft("text.delta", '{"n":1}'), frames.Draft("text.delta", "{}")])
    first = decide(append.append_many([batch]), ring=silent)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)  # an event in between
    again = decide(append.append_many([batch]), ring=silent)
    assert first == again
    seqs = list(Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    assert types_of(run).count("text.delta") == 2


def test_a_batch_number_that_does_not_follow_is_not_stored(owner):
    run = a_run(owner)
    fence = a_claim(run)
    batch = append.Batch(run.pk, fence, 2, [frames.Draft("text.delta", "{}")])
    assert decide(append.append_many([batch]), ring=silent) == {}


def test_a_stale_run_in_a_batch_is_left_out_alone(owner):
    good, stale = a_run(owner), a_run(owner)
    fence = a_claim(good)
    old = a_claim(stale)
    expire(stale)
    a_claim(stale, "worker-b")
    drafts = [frames.Draft("text.delta", "{}")]
    stored = decide(
        append.append_many([append.Batch(good.pk, fence, 1, drafts), append.Batch(stale.pk, old, 1, drafts)]),
        ring=silent,
    )
    assert set(stored) == {good.pk}


def test_renew_tells_held_cancelled_and_lost_apart(owner):
    held, asked, lost = a_run(owner), a_run(owner), a_run(owner)
    fences = {run.pk: a_claim(run) for run in (held, asked, lost)}
    decide(cancels.request_cancel(run_id=asked.pk, reason=CancelReason.USER), ring=silent)
    expire(lost)
    a_claim(lost, "worker-b")
    words = decide(claims.renew(worker="worker-a", held=fences, lease_seconds=5), ring=silent)
    assert words == {held.pk: "HELD", asked.pk: "CANCEL_REQUESTED", lost.pk: "LOST"}


def test_a_frozen_worker_cannot_revive_the_lease_of_a_run_that_ended(owner):
    run = a_run(owner)
    fence = a_claim(run)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    expire(run)
    assert isinstance(decide(endings.end_cancel(run_id=run.pk), ring=silent), endings.Ended)
    words = decide(claims.renew(worker="worker-a", held={run.pk: fence}, lease_seconds=5), ring=silent)
    assert words == {run.pk: "LOST"}
    run.refresh_from_db()
    assert run.lease_until is None
    assert run.fence > fence


def test_release_gives_the_run_to_the_next_worker_at_once(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert isinstance(decide(claims.release(run_id=run.pk, fence=fence), ring=silent), claims.Released)
    assert a_claim(run, "worker-b") == fence + 2  # release itself took one: the old holder is out


def test_release_waits_for_calls_in_flight_unless_the_drain_time_is_over(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, effect="write")
    assert isinstance(decide(claims.release(run_id=run.pk, fence=fence), ring=silent), claims.Lost)
    over = decide(claims.release(run_id=run.pk, fence=fence, even_in_flight=True), ring=silent)
    assert isinstance(over, claims.Released)


def test_the_runs_of_a_dead_worker_are_free_before_their_lease_ends(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert decide(claims.take_from_dead(run_id=run.pk, worker="worker-b"), ring=silent) is False
    assert decide(claims.take_from_dead(run_id=run.pk, worker="worker-a"), ring=silent) is True
    assert a_claim(run, "worker-b") > fence
    assert "claim.lost" in types_of(run)


def test_a_lease_that_has_not_passed_is_not_taken(owner):
    run = a_run(owner)
    a_claim(run)
    assert decide(claims.expire_lease(run_id=run.pk), ring=silent) is False
    expire(run)
    assert decide(claims.expire_lease(run_id=run.pk), ring=silent) is True


def test_only_its_holder_carries_out_a_cancel(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert decide(claims.see_cancel(run_id=run.pk, fence=fence), ring=silent) is None
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.DEADLINE), ring=silent)
    assert isinstance(decide(claims.see_cancel(run_id=run.pk, fence=fence - 1), ring=silent), claims.Lost)
    for _ in range(2):  # the second look sees the same and records nothing
        assert decide(claims.see_cancel(run_id=run.pk, fence=fence), ring=silent) == claims.Seen("deadline")
    assert types_of(run).count("run.cancelling") == 1
    run.refresh_from_db()
    assert (run.status, run.cancel_seen_by, run.cancel_seen_fence) == (Status.CANCELLING, "worker-a", fence)
