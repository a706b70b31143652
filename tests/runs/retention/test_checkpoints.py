"""Checkpoints: who gets one, that view and cursor stay those of the whole log, and that no race spoils them."""

import json
from typing import Any

import pytest

from runs import frames
from runs.access import Actor
from runs.database import decide
from runs.decisions.core import Fact
from runs.decisions.keeping import NewView, keep_view
from runs.fold import FOLD_VERSION, fold_all
from runs.models import Attempt, Checkpoint, Event, Run
from runs.retention import checkpoints
from runs.retention.checkpoints import due_streams, keep
from runs.selectors import view_of
from runs.supervisor.keeping import keep_once
from tests.builders import a_run, silent
from tests.runs.retention.conftest import SetLimits, a_text, a_told_run, make_older
from tests.streaming.writing import deltas, emit, late_words, start_new_attempt

pytestmark = pytest.mark.django_db


def whole_view(run: Run) -> dict[str, Any]:
    """Fold the log from its first event, one by one."""
    rows = Event.objects.filter(stream_id=run.stream_id).order_by("seq")
    return fold_all(frames.decode(row.seq, row.data) for row in rows)


def first_frames(run: Run, upto: int) -> list[dict[str, Any]]:
    rows = Event.objects.filter(stream_id=run.stream_id, seq__lte=upto).order_by("seq")
    return [frames.decode(row.seq, row.data) for row in rows]


def test_a_checkpoint_anywhere_and_the_events_after_it_are_the_view_of_all(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m1", 4), Fact("usage", {"input_tokens": 3}), *a_text("m2", 3), *deltas(2))
    rows = Event.objects.filter(stream_id=run.stream_id).order_by("seq")
    log = [frames.decode(row.seq, row.data) for row in rows]
    for k in range(1, len(log) + 1):
        view = json.dumps(fold_all(log[:k]))
        Checkpoint.objects.create(
            stream_id=run.stream_id, seq=k, fold_version=FOLD_VERSION, view=view, kept_bytes=1, compacted_seq=0
        )
        assert view_of(run) == (whole_view(run), len(log))
        keep(run.stream_id)
        assert json.loads(Checkpoint.objects.get().view) == whole_view(run)
        Checkpoint.objects.all().delete()


def test_a_snapshot_reads_only_what_follows_the_checkpoint(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 5))
    keep(run.stream_id)
    view, seq = view_of(run)
    Event.objects.filter(stream_id=run.stream_id, seq__lte=3).update(data="no JSON")
    assert view_of(run) == (view, seq)


def test_a_running_stream_gets_one_for_each_so_many_events(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(checkpoint_events=10)
    run = a_told_run(owner, *a_text("m", 7, ends=False), ends=False)
    assert keep_once() == 0
    emit(run, *deltas(1), rings=False)
    assert keep_once() == 1
    assert Checkpoint.objects.get().seq == 10
    emit(run, *deltas(9), rings=False)
    assert keep_once() == 0
    emit(run, *deltas(1), rings=False)
    assert keep_once() == 1
    kept = Checkpoint.objects.get()
    assert (kept.seq, json.loads(kept.view)) == (20, whole_view(run))


def test_a_large_view_is_not_written_for_each_few_events(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(checkpoint_events=2)
    run = a_told_run(owner, Fact("text.start", {"message_id": "m"}), ends=False)
    emit(run, Fact("text.delta", {"message_id": "m", "delta": "x" * 10_240}), rings=False)
    keep_once()
    emit(run, *deltas(9), rings=False)
    assert keep_once() == 0
    emit(run, *deltas(2), rings=False)
    assert keep_once() == 1


def test_a_short_run_is_kept_a_day_after_its_end_and_a_long_one_at_once(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(checkpoint_events=20)
    short = a_told_run(owner, *a_text("m", 3))
    long = a_told_run(owner, *a_text("m", 30))
    assert due_streams() == [long.stream_id]
    keep_once()
    make_older(short, days=1)
    assert due_streams() == [short.stream_id]
    keep_once()
    assert due_streams() == []
    assert set(Attempt.objects.values_list("is_kept", flat=True)) == {True}


def test_the_stream_of_an_earlier_attempt_is_kept_as_well(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    first = run.stream_id
    start_new_attempt(run)
    make_older(run, days=1)
    keep_once()
    assert list(Checkpoint.objects.values_list("stream_id", "seq")) == [(first, 8)]


def test_the_view_of_an_older_fold_is_not_used_and_made_anew(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    keep(run.stream_id)
    Checkpoint.objects.update(fold_version=FOLD_VERSION - 1, view='{"seq": 7, "status": "nonsense"}')
    assert view_of(run) == (whole_view(run), 8)
    assert keep_once() == 1
    kept = Checkpoint.objects.get()
    assert (kept.fold_version, json.loads(kept.view)) == (FOLD_VERSION, whole_view(run))
    assert kept.kept_bytes == sum(len(data) for data in Event.objects.values_list("data", flat=True))


def test_where_the_events_are_deleted_the_view_of_an_older_fold_is_all_there_is(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    keep(run.stream_id)
    whole = whole_view(run)
    old = {key: value for key, value in whole.items() if key != "artifacts"}  # a part that the older fold did not know
    Checkpoint.objects.update(fold_version=FOLD_VERSION - 1, view=json.dumps(old), floor_seq=9)
    Event.objects.all().delete()
    Run.objects.update(floor_seq=9)
    assert view_of(run) == (whole, 8)
    assert keep_once() == 1
    kept = Checkpoint.objects.get()
    assert (kept.fold_version, json.loads(kept.view), kept.seq) == (FOLD_VERSION, whole, 8)


def test_of_two_supervisors_the_second_changes_nothing(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    keep(run.stream_id)
    emit(run, *late_words(2), rings=False)
    late = NewView(run.stream_id, 8, 9, '{"late": 1}', 5, is_anew=False)
    first = NewView(run.stream_id, 8, 10, '{"first": 1}', 5, is_anew=False)
    assert decide(keep_view(first, compact_after_hours=1), ring=silent)
    assert not decide(keep_view(late, compact_after_hours=1), ring=silent)
    begun = NewView(run.stream_id, None, 10, '{"begun": 1}', 5, is_anew=True)
    assert not decide(keep_view(begun, compact_after_hours=1), ring=silent)
    assert Checkpoint.objects.get().view == '{"first": 1}'


def test_a_view_is_never_put_back_by_a_server_of_an_older_version(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    keep(run.stream_id)
    Checkpoint.objects.update(fold_version=FOLD_VERSION + 1)
    emit(run, *late_words(2), rings=False)
    assert not keep(run.stream_id)
    read_before = NewView(run.stream_id, 8, 10, "{}", 5, is_anew=False)
    assert not decide(keep_view(read_before, compact_after_hours=1), ring=silent)
    assert Checkpoint.objects.get().seq == 8


def test_a_log_with_a_hole_gets_no_checkpoint_and_keeps_nobody_from_theirs(
    owner: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    run = a_told_run(owner, *a_text("m", 3))
    make_older(run, days=1)
    Event.objects.filter(stream_id=run.stream_id, seq=4).delete()
    assert keep_once() == 0
    assert not Checkpoint.objects.exists()
    assert due_streams() == []
    assert "checkpoint.hole" in caplog.text


def test_what_another_supervisor_has_kept_and_joined_meanwhile_is_no_hole(
    owner: Actor, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps and joins the texts after we have read where the checkpoint was, before we read the events."""
    run = a_told_run(owner, *a_text("m", 30))
    make_older(run, days=2)
    keep(run.stream_id)
    Checkpoint.objects.update(seq=10, view=json.dumps(fold_all(first_frames(run, 10))))
    really = checkpoints.fetch

    def fetch(sql: str, params: dict[str, Any]) -> list[Any]:
        if sql == checkpoints.EVENTS and fetch_once:
            fetch_once.clear()
            assert keep(run.stream_id)
            keep_once()
            assert Event.objects.filter(type="text.compacted").count() == 1
        return really(sql, params)

    fetch_once = [True]
    monkeypatch.setattr(checkpoints, "fetch", fetch)
    assert not keep(run.stream_id)
    assert fetch_once == []
    assert Checkpoint.objects.get().seq == 35
    assert "checkpoint.hole" not in caplog.text


def test_a_checkpoint_goes_on_over_joined_texts(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 30))
    make_older(run, days=2)
    keep_once()
    keep_once()
    assert Event.objects.filter(type="text.compacted").count() == 1
    Checkpoint.objects.all().delete()
    assert keep(run.stream_id)
    assert json.loads(Checkpoint.objects.get().view) == whole_view(run)


def test_a_healthy_system_has_nothing_to_keep(owner: Actor) -> None:
    a_run(owner)
    a_told_run(owner, *a_text("m", 3))
    assert keep_once() == 0
