"""Deleting events: by age, count and bytes, below the checkpoint only, and never of what is held or not settled."""

import json
from typing import Any

import pytest

from runs.access import Actor
from runs.database import decide
from runs.decisions import endings
from runs.decisions.keeping import Trimming, trim
from runs.models import Attempt, Checkpoint, Event, Operation, Run
from runs.retention import expiry
from runs.retention.checkpoints import keep
from runs.retention.expiry import expire, expired_streams, trim_to_size
from runs.selectors import view_of
from runs.states import Status
from runs.supervisor.keeping import keep_once
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.retention.conftest import SetLimits, a_text, a_told_run, make_older
from tests.streaming.writing import deltas, emit, end, late_words, start_new_attempt, stored

pytestmark = pytest.mark.django_db


def floors(run: Run) -> tuple[int, int]:
    """Give the floor as readers see it and as the checkpoint has it."""
    return Run.objects.get(pk=run.pk).floor_seq, Checkpoint.objects.get(stream_id=run.stream_id).floor_seq


def test_events_of_an_attempt_that_ended_long_ago_go_and_its_view_stays(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    whole = view_of(run)
    make_older(run, days=89)
    keep_once()
    assert stored(run) != []
    make_older(run, days=1)
    keep_once()
    assert (stored(run), floors(run), view_of(run)) == ([], (15, 15), whole)
    assert Attempt.objects.get().events_expired_at is not None
    assert keep_once() == 0


def test_a_late_verdict_is_in_the_view_before_it_goes(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    keep(run.stream_id)
    emit(run, *late_words(1), rings=False)
    whole = view_of(run)
    make_older(run, days=90)
    keep_once()
    assert (stored(run), view_of(run)) == ([], whole)


def test_what_comes_after_the_expiry_is_kept(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    make_older(run, days=90)
    keep_once()
    emit(run, *late_words(1), rings=False)
    keep_once()
    assert stored(run) == [9]
    assert view_of(run)[1] == 9


def a_run_in_doubt(owner: Actor) -> Run:
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "unknown")
    assert isinstance(decide(endings.park(run_id=run.pk, fence=fence), ring=silent), endings.Ended)
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("why", ["held", "goes on again", "in doubt"])
def test_these_are_not_deleted_by_age(owner: Actor, why: str) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=400)
    stream = run.stream_id
    keep(stream)
    if why == "held":
        Run.objects.update(is_held=True)
    elif why == "goes on again":
        start_new_attempt(run)
    else:
        Run.objects.update(status=Status.NEEDS_RECONCILIATION)
    assert expired_streams() == []
    assert expire({"run_id": run.pk, "stream_id": stream}) == 0  # it was read before that came to pass
    assert Event.objects.filter(stream_id=stream).count() == 14


def test_an_earlier_attempt_goes_when_the_run_is_settled_and_the_current_floor_stays(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    first = run.stream_id
    make_older(run, days=100)
    start_new_attempt(run)
    emit(run, *a_text("n", 3), rings=False)
    end(run, rings=False)
    keep_once()
    keep_once()
    assert not Event.objects.filter(stream_id=first).exists()
    run.refresh_from_db()
    assert (run.floor_seq, stored(run)[0]) == (1, 1)
    assert Checkpoint.objects.get(stream_id=first).floor_seq == 15


def test_of_a_long_stream_the_newest_events_are_kept_also_while_it_goes_on(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(events_per_stream=50, checkpoint_events=20)
    run = a_told_run(owner, *a_text("m", 98, ends=False), ends=False)
    whole = view_of(run)
    assert keep_once() == 1
    assert (stored(run), floors(run)) == (list(range(51, 101)), (51, 51))
    assert view_of(run) == whole
    emit(run, *deltas(30), rings=False)
    whole = view_of(run)
    keep_once()
    assert (stored(run), floors(run), view_of(run)) == (list(range(81, 131)), (81, 81), whole)


def test_of_a_large_stream_the_newest_bytes_are_kept(owner: Actor, set_limits: SetLimits) -> None:
    run = a_told_run(owner, *a_text("m", 200), ends=False)
    whole = view_of(run)
    size = sum(len(text) for text in Event.objects.values_list("data", flat=True))
    set_limits(bytes_per_stream=size // 2, checkpoint_events=20)
    keep_once()
    left = list(Event.objects.order_by("seq").values_list("data", flat=True))
    kept = Checkpoint.objects.get()
    assert kept.kept_bytes == sum(len(text) for text in left)
    assert size // 3 < kept.kept_bytes <= 0.75 * (size // 2)
    assert view_of(run) == whole
    assert keep_once() == 0


def test_a_held_stream_is_not_cut_to_size(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(events_per_stream=50, checkpoint_events=20)
    run = a_told_run(owner, *a_text("m", 98), ends=False)
    Run.objects.update(is_held=True)
    keep_once()
    assert trim_to_size(run.stream_id) == 0
    assert decide(trim(Trimming(run.pk, run.stream_id, 50, 10, None)), ring=silent) == 0
    assert len(stored(run)) == 101


def test_the_floor_is_never_above_the_checkpoint(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9), ends=False)
    keep(run.stream_id)
    emit(run, *deltas(5), rings=False)
    whole = view_of(run)
    assert decide(trim(Trimming(run.pk, run.stream_id, 2**62, 1000, None)), ring=silent) == 12
    assert (stored(run), floors(run), view_of(run)) == ([13, 14, 15, 16, 17], (13, 13), whole)
    nothing = Run.objects.get()
    Checkpoint.objects.all().delete()
    assert decide(trim(Trimming(run.pk, run.stream_id, 16, 1000, None)), ring=silent) == 0
    assert Run.objects.get().floor_seq == nothing.floor_seq


def test_the_floor_never_comes_to_lie_inside_of_a_joined_text(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=1)
    while keep_once():
        pass
    assert stored(run) == [1, 2, 11, 12, 13, 14]
    assert decide(trim(Trimming(run.pk, run.stream_id, 7, 1000, None)), ring=silent) == 2
    assert floors(run) == (3, 3)


def test_many_rows_are_deleted_in_bounded_pieces(owner: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "BATCH_ROWS", 4)
    run = a_told_run(owner, *a_text("m", 9))
    keep(run.stream_id)
    assert decide(trim(Trimming(run.pk, run.stream_id, 100, 4, None)), ring=silent) == 4
    assert (floors(run), Attempt.objects.get().events_expired_at) == ((5, 5), None)
    make_older(run, days=90)
    (due,) = expired_streams()
    assert expire(due) == 10
    assert (floors(run), stored(run)) == ((15, 15), [])
    assert Attempt.objects.get().events_expired_at is not None


def test_the_ledger_stays(owner: Actor) -> None:
    run = a_run_in_doubt(owner)
    operation: dict[str, Any] = Operation.objects.values().get()
    Run.objects.update(status=Status.FAILED, unknown_ops=0)
    make_older(run, days=10_000)
    keep_once()
    keep_once()
    assert (stored(run), Operation.objects.values().get()) == ([], operation)
    assert json.loads(Checkpoint.objects.get().view)["operations"] != []
