"""What a claim, a heartbeat, a batch and a release must leave alone, and what each of them writes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs import frames
from runs.database import decide
from runs.decisions import append, cancels, claims, endings, steps
from runs.decisions.evidence import insert_evidence
from runs.models import Event, Evidence, Operation, OutboxRow, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def a_batch(run: Run, fence: int, number: int = 1) -> append.Batch:
    return append.Batch(run.pk, fence, number, [frames.Draft("text.delta", "{}")])


def test_an_append_touches_no_other_run_that_has_the_same_fence(owner):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    assert a_claim(other) == fence
    other.refresh_from_db()
    decide(append.append_many([a_batch(run, fence)]), ring=silent)
    assert Run.objects.get(pk=other.pk).last_seq == other.last_seq


def test_a_batch_that_is_sent_again_adds_no_rows(owner):
    run = a_run(owner)
    fence = a_claim(run)
    first, again = (decide(append.append_many([a_batch(run, fence)]), ring=silent) for _ in range(2))
    assert first == again
    assert types_of(run).count("text.delta") == 1


def test_a_new_claim_counts_its_batches_anew(owner):
    run = a_run(owner)
    decide(append.append_many([a_batch(run, a_claim(run))]), ring=silent)
    expire(run)
    stored = decide(append.append_many([a_batch(run, a_claim(run, "worker-b"))]), ring=silent)
    run.refresh_from_db()
    assert (stored[run.pk], run.last_batch, run.last_batch_seq) == (run.last_seq, 1, run.last_seq)


def test_a_new_claim_does_not_take_the_first_batch_for_a_repeat(owner):
    run = a_run(owner)
    decide(append.append_many([a_batch(run, a_claim(run))]), ring=silent)
    expire(run)
    a_claim(run, "worker-b")
    run.refresh_from_db()
    assert (run.last_batch, run.last_batch_seq) == (0, 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_claim_takes_its_own_run_and_wish_alone(owner, is_first):
    run, other = a_run(owner), a_run(owner)
    if not is_first:
        decide(claims.release(run_id=run.pk, fence=a_claim(run)), ring=silent)
    a_claim(run)
    other.refresh_from_db()
    assert (other.status, other.lease_owner) == (Status.QUEUED, None)
    assert list(OutboxRow.objects.values_list("run_id", flat=True)) == [other.pk]


def test_the_events_of_two_runs_in_one_append_stay_apart(owner):
    first, second = a_run(owner), a_run(owner)
    fences = {run: a_claim(run) for run in (first, second)}
    batches = [
        append.Batch(run.pk, fences[run], 1, [frames.Draft("text.delta", f'{{"of":{n},"i":{i}}}') for i in range(3)])
        for n, run in enumerate((first, second))
    ]
    stored = decide(append.append_many(batches), ring=silent)
    for n, run in enumerate((first, second)):
        rows = Event.objects.filter(stream_id=run.stream_id, seq__gte=stored[run.pk]).order_by("seq")
        assert [row.data for row in rows] == [f'{{"of":{n},"i":{i}}}' for i in range(3)]


def test_a_claim_has_the_lease_that_it_asked_for_and_keeps_the_first_start(owner):
    run = a_run(owner)
    a_claim(run, lease_seconds=60.0)
    run.refresh_from_db()
    started_at = run.started_at
    assert timedelta(seconds=50) < run.lease_until - timezone.now() <= timedelta(seconds=60)
    expire(run)
    a_claim(run, "worker-b", lease_seconds=600.0)
    run.refresh_from_db()
    assert started_at is not None
    assert run.started_at == started_at
    assert run.lease_until - timezone.now() > timedelta(seconds=500)


def test_a_claim_of_a_stopping_run_carries_the_stop_out(owner):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, kind="model")
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    expire(run)
    new = a_claim(run, "worker-b")
    run.refresh_from_db()
    assert (run.status, run.cancel_seen_by, run.cancel_seen_fence) == (Status.CANCELLING, "worker-b", new)
    assert Step.objects.get(run=run).state == "abandoned"
    assert types_of(run)[-6:] == [
        "claim.lost", "text.end", "model.finished", "step.finished", "claim.started", "run.cancelling",
    ]  # fmt: skip
    seen_at = run.cancel_seen_at
    assert seen_at is not None
    expire(run)
    a_claim(run, "worker-c")
    run.refresh_from_db()
    assert (run.cancel_seen_at, run.cancel_seen_by, run.cancel_seen_fence) == (seen_at, "worker-b", new)
    assert types_of(run).count("run.cancelling") == 1


def test_a_second_claim_does_not_start_the_run_again_and_says_whose_claim_was_lost(owner):
    run = a_run(owner)
    fence = a_claim(run)
    expire(run)
    a_claim(run, "worker-b")
    lost = Event.objects.get(stream_id=run.stream_id, type="claim.lost")
    assert frames.decode(lost.seq, lost.data)["data"] == {"fence": fence, "reason": "lease_expired"}
    assert types_of(run).count("run.started") == 1


def test_a_claim_after_a_release_says_nothing_of_a_lost_one(owner):
    run = a_run(owner)
    decide(claims.release(run_id=run.pk, fence=a_claim(run)), ring=silent)
    a_claim(run, "worker-b")
    assert types_of(run).count("claim.lost") == 1  # the release's own


def test_a_new_claim_closes_the_open_calls_of_its_own_run_alone(owner):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    done, cut = a_dispatch(run, fence, path="1", kind="model"), a_dispatch(run, fence, path="2", effect="read")
    an_outcome(run, fence, a_dispatch(run, fence, path="3"), "succeeded")
    decide(steps_end(run, fence, done), ring=silent)
    others = a_dispatch(other, a_claim(other), kind="model")
    expire(run)
    a_claim(run, "worker-b")
    states = dict(Step.objects.values_list("pk", "state"))
    assert (states[done.step_id], states[cut.step_id], states[others.step_id]) == ("finished", "superseded", "open")
    assert dict(Run.objects.values_list("pk", "open_ops")) == {run.pk: 0, other.pk: 1}


def steps_end(run, fence, sent):
    return steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished")


def test_a_worker_renews_what_it_holds_and_nothing_else(owner):
    mine, forgotten, theirs = a_run(owner), a_run(owner), a_run(owner)
    fence = a_claim(mine, lease_seconds=5.0)
    for run, worker in ((forgotten, "worker-a"), (theirs, "worker-b")):
        assert a_claim(run, worker, lease_seconds=5.0) == fence
    held = {mine.pk: fence, theirs.pk: fence}
    words = decide(claims.renew(worker="worker-a", held=held, lease_seconds=600.0), ring=silent)
    assert words == {mine.pk: "HELD", theirs.pk: "LOST"}
    far = timezone.now() + timedelta(seconds=500)
    assert set(Run.objects.filter(lease_until__gt=far).values_list("pk", flat=True)) == {mine.pk}


def test_only_the_holder_releases_and_says_so(owner):
    run = a_run(owner)
    fence = a_claim(run)
    assert isinstance(decide(claims.release(run_id=run.pk, fence=fence - 1), ring=silent), claims.Lost)
    run.refresh_from_db()
    assert run.lease_owner == "worker-a"
    decide(claims.release(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    assert (run.lease_owner, run.lease_until, run.fence) == (None, None, fence + 1)
    assert OutboxRow.objects.filter(run=run).exists()
    assert types_of(run)[-1] == "claim.lost"


def test_a_freed_run_asks_for_another_worker(owner):
    run = a_run(owner)
    fence = a_claim(run)
    decide(claims.take_from_dead(run_id=run.pk, worker="worker-a"), ring=silent)
    run.refresh_from_db()
    assert (run.lease_owner, run.lease_until, run.fence) == (None, None, fence + 1)
    assert OutboxRow.objects.filter(run=run).exists()


@pytest.mark.parametrize("free", [claims.take_from_dead, claims.expire_lease])
def test_nothing_is_taken_from_a_run_that_ended(owner, free):
    run = a_run(owner)
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED), ring=silent)
    before = Run.objects.filter(pk=run.pk).values().get()
    more = {"worker": "worker-a"} if free is claims.take_from_dead else {}
    assert decide(free(run_id=run.pk, **more), ring=silent) is False
    assert Run.objects.filter(pk=run.pk).values().get() == before


def test_the_end_of_a_worker_is_noted_once_on_its_own_open_operations(owner):
    run = a_run(owner)
    fence = a_claim(run)
    kinds = ("dispatched", "settled", "other", "unknown")
    sent = {name: a_dispatch(run, fence, path=name, worker="w" if name != "other" else "v") for name in kinds}
    an_outcome(run, fence, sent["settled"], "succeeded", gave_up=False)
    an_outcome(run, fence, sent["unknown"], "unknown", gave_up=False)
    ids = {sent[name].operation_id for name in ("dispatched", "unknown")}
    versions = dict(Operation.objects.values_list("pk", "version"))
    assert decide(claims.mark_holder_gone(worker="w", proof={"exit": 0}), ring=silent) == 2
    assert decide(claims.mark_holder_gone(worker="w", proof={"exit": 0}), ring=silent) == 0
    assert set(Operation.objects.filter(holder_gone_at__isnull=False).values_list("pk", flat=True)) == ids
    assert set(Evidence.objects.values_list("operation_id", "kind", "fence")) == {(pk, "exit", fence) for pk in ids}
    assert Evidence.objects.count() == 2
    assert {o.pk for o in Operation.objects.all() if o.version != versions[o.pk]} == ids


def test_only_a_try_that_was_sent_again_is_a_stray(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, worker="v")
    decide(insert_evidence(sent.operation_id, fence, "look_up", None, {"worker": "w"}), ring=silent)
    assert decide(claims.mark_holder_gone(worker="w", proof={"exit": 0}), ring=silent) == 0


def test_the_end_of_a_worker_says_nothing_of_the_strays_of_another(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run, "lost-1"), key="k", effect="idempotent", worker="lost-1")
    for worker in ("lost-2", "worker-c"):
        expire(run)
        a_dispatch(run, a_claim(run, worker), key="k", effect="idempotent", worker=worker)
    assert decide(claims.mark_holder_gone(worker="lost-2", proof={"exit": 0}), ring=silent) == 1
    assert list(Evidence.objects.filter(kind="exit").values_list("fence", flat=True)) == [2]
    assert decide(claims.mark_holder_gone(worker="lost-1", proof={"exit": 0}), ring=silent) == 1


def test_a_stray_of_one_run_is_not_closed_by_the_exit_noted_in_another(owner):
    """Fences are counted within a run, so two runs lost by one worker have the same one."""
    runs = [a_run(owner), a_run(owner)]
    for run in runs:
        key = f"k-{run.pk}"
        a_dispatch(run, a_claim(run, "lost"), key=key, effect="idempotent", worker="lost")
        expire(run)
        a_dispatch(run, a_claim(run, "worker-b"), key=key, effect="idempotent", worker="worker-b")
    first = Operation.objects.filter(run=runs[0]).get()
    decide(insert_evidence(first.pk, 1, "exit", None, {}), ring=silent)
    assert decide(claims.mark_holder_gone(worker="lost", proof={"exit": 0}), ring=silent) == 1
