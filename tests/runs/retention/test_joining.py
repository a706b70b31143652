"""Joining texts: which, when, and that every view and every cursor outside of a joined range stays good."""

import json
import random
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from runs import frames
from runs.access import Actor
from runs.compaction import MAX_SPAN, Span
from runs.database import decide
from runs.decisions.core import Fact
from runs.decisions.keeping import Joining, join_texts
from runs.fold import fold_all
from runs.fold_parts import first_seq
from runs.frames import write_time
from runs.models import Checkpoint, Event, Run
from runs.retention import joining
from runs.retention.checkpoints import keep
from runs.retention.joining import due_texts, join_next
from runs.selectors import view_of
from runs.supervisor.keeping import keep_once
from tests.builders import silent
from tests.runs.retention.conftest import a_text, a_told_run, make_older
from tests.streaming.writing import deltas, emit, stored

pytestmark = pytest.mark.django_db


def log_of(run: Run) -> list[dict[str, Any]]:
    rows = Event.objects.filter(stream_id=run.stream_id).order_by("seq")
    return [frames.decode(row.seq, row.data) for row in rows]


def is_whole(log: list[dict[str, Any]]) -> bool:
    """Each first seq is the one before, + 1."""
    return [first_seq(frame) for frame in log] == [1, *(frame["seq"] + 1 for frame in log[:-1])]


def keep_until_done() -> None:
    while keep_once():
        pass


def test_a_day_after_the_end_the_deltas_become_one_frame(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=0.9)
    keep_until_done()
    assert len(log_of(run)) == 14
    make_older(run, days=0.2)
    keep_until_done()
    log = log_of(run)
    assert [frame["seq"] for frame in log] == [1, 2, 11, 12, 13, 14]
    joined = log[2]
    assert joined["data"] == {
        "message_id": "m", "from_seq": 3, "to_seq": 11, "text": "".join(f"m-{i} " for i in range(9)),
    }  # fmt: skip
    assert is_whole(log)
    assert due_texts() == []


def test_texts_that_were_written_side_by_side_give_several_frames(owner: Actor) -> None:
    mixed = [*a_text("a", 3, ends=False), *a_text("b", 2, ends=False)]
    mixed += [Fact("text.delta", {"message_id": one, "delta": f"{one}! "}) for one in ("a", "a", "b", "a", "b", "b")]
    run = a_told_run(owner, *mixed)
    before = log_of(run)
    make_older(run, days=1)
    keep_until_done()
    log = log_of(run)
    kinds = [(frame["type"], first_seq(frame), frame["seq"]) for frame in log[1:-2]]
    assert kinds == [
        ("text.start", 2, 2), ("text.compacted", 3, 5), ("text.start", 6, 6), ("text.compacted", 7, 8),
        ("text.compacted", 9, 10), ("text.delta", 11, 11), ("text.delta", 12, 12), ("text.compacted", 13, 14),
    ]  # fmt: skip
    assert (is_whole(log), fold_all(log)) == (True, fold_all(before))


@pytest.mark.parametrize("seed", range(5))
def test_from_every_snapshot_outside_of_a_range_the_joined_log_gives_the_whole(owner: Actor, seed: int) -> None:
    fate = random.Random(seed)
    facts: list[Fact] = []
    for i in range(12):
        facts += a_text(f"m{i % 5}", fate.randrange(6), ends=fate.random() < 0.7)
        facts += fate.choice([[], [Fact("usage", {"input_tokens": 1})], [Fact("run.titled", {"title": f"t{i}"})]])
    run = a_told_run(owner, *facts)
    before, whole = log_of(run), view_of(run)
    make_older(run, days=1)
    keep_until_done()
    log = log_of(run)
    assert len(log) < len(before)
    assert is_whole(log)
    assert view_of(run) == whole
    for k in range(len(before) + 1):
        snapshot = fold_all(before[:k])
        rest = [frame for frame in log if frame["seq"] > k]
        if not rest or first_seq(rest[0]) == k + 1:
            assert fold_all(rest, snapshot) == whole[0]


def age_ends(run: Run, message_id: str, *, hours: float) -> None:
    """Let a text have ended so many hours ago."""
    for row in Event.objects.filter(stream_id=run.stream_id, type="text.end"):
        frame = json.loads(row.data)
        if frame["data"]["message_id"] == message_id:
            frame["ts"] = write_time(timezone.now() - timedelta(hours=hours))
            Event.objects.filter(stream_id=run.stream_id, seq=row.seq).update(data=frames.dump(frame))


def test_of_a_run_that_goes_on_only_what_is_older_than_each_young_text(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("old", 4), *a_text("open", 4, ends=False), *a_text("older", 4), ends=False)
    age_ends(run, "old", hours=25)
    age_ends(run, "older", hours=30)
    keep(run.stream_id)
    Checkpoint.objects.update(compact_at=timezone.now())
    keep_once()
    assert [frame["seq"] for frame in log_of(run)] == [1, 2, 6, 7, 8, *range(9, 19)]
    kept = Checkpoint.objects.get()
    assert kept.compacted_seq == 8
    assert kept.compact_at is not None
    assert timedelta(minutes=55) < kept.compact_at - timezone.now() < timedelta(minutes=61)
    emit(run, Fact("text.end", {"message_id": "open", "final": True}), rings=False)
    for hours, rows in ((23, 16), (25, 10)):
        age_ends(run, "open", hours=hours)
        keep(run.stream_id)
        Checkpoint.objects.update(compact_at=timezone.now())
        keep_once()
        assert len(log_of(run)) == rows
    assert [frame["seq"] for frame in log_of(run)] == [1, 2, 6, 7, 8, 12, 13, 17, 18, 19]


def test_nothing_above_the_checkpoint_is_joined(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 6, ends=False), ends=False)
    keep(run.stream_id)
    emit(run, *deltas(3), Fact("text.end", {"message_id": "m"}), rings=False)
    age_ends(run, "m", hours=25)
    Checkpoint.objects.update(compact_at=timezone.now())
    keep_once()  # the end of the text is above the checkpoint as well: nobody knows of it yet
    assert len(log_of(run)) == 12
    with pytest.raises(IntegrityError, match="checkpoint_covers_compacted"), transaction.atomic():
        Checkpoint.objects.update(compacted_seq=9)


def test_a_long_text_is_joined_in_bounded_frames_and_transactions(
    owner: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "BATCH_EVENTS", 1500)
    monkeypatch.setattr(joining, "EVENTS", joining.EVENTS.replace("limit 5000", "limit 1500"))
    run = a_told_run(owner, *a_text("m", 2 * MAX_SPAN + 500))
    whole = view_of(run)
    make_older(run, days=1)
    keep(run.stream_id)
    saved = []
    while due := due_texts():
        saved.append(join_next(due[0]))
    assert saved == [1496, 1000]
    log = log_of(run)
    assert is_whole(log)
    assert max(frame["seq"] - (first_seq(frame) or 0) for frame in log) == MAX_SPAN - 1
    assert view_of(run) == whole


def test_texts_of_a_held_run_stay_as_they_are(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=1)
    keep(run.stream_id)
    (due,) = due_texts()
    Run.objects.update(is_held=True)
    assert due_texts() == []
    assert join_next(due) == 0  # it was read before
    assert len(stored(run)) == 14


def test_of_two_supervisors_one_joins(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=1)
    keep(run.stream_id)
    (due,) = due_texts()
    assert join_next(due) == 8
    assert join_next(due) == 0  # it has read the checkpoint before the first one acted
    assert is_whole(log_of(run))


def test_retention_that_came_between_is_noticed(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    keep(run.stream_id)
    Checkpoint.objects.update(floor_seq=5)
    Event.objects.filter(stream_id=run.stream_id, seq__lt=5).delete()
    span = Span(3, 11, {"v": 1, "type": "text.compacted", "data": {}})
    assert not decide(join_texts(Joining(run.stream_id, 1, 0, 14, [span], None)), ring=silent)
    assert stored(run) == list(range(5, 15))


def test_rows_that_are_not_what_was_read_are_left_as_they_are(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 9))
    keep(run.stream_id)
    wrong = Span(1, 11, {"v": 1, "type": "text.compacted", "data": {}})  # begins at run.created
    with pytest.raises(AssertionError), transaction.atomic():
        decide(join_texts(Joining(run.stream_id, 1, 0, 14, [wrong], None)), ring=silent)
    assert (stored(run), Checkpoint.objects.get().compacted_seq) == (list(range(1, 15)), 0)


def test_the_bytes_that_are_kept_are_counted(owner: Actor) -> None:
    run = a_told_run(owner, *a_text("m", 50))
    make_older(run, days=1)
    keep(run.stream_id)
    for _ in range(2):
        sizes = [len(text) for text in Event.objects.values_list("data", flat=True)]
        assert Checkpoint.objects.get().kept_bytes == sum(sizes)
        keep_until_done()
    assert len(sizes) < 10
