"""What is kept against what goes on: each pair meets on the checkpoint's or the run's row, and a log stays whole."""

from typing import Any

import pytest

from runs import frames
from runs.compaction import find_spans
from runs.database import decide
from runs.decisions import compensations, conversations, forgetting, retry
from runs.decisions.append import Batch, append_many
from runs.decisions.keeping import Joining, NewView, Trimming, join_texts, keep_view, lock_cleared, trim
from runs.fold_parts import first_seq
from runs.models import Checkpoint, Event, Run
from runs.retention.checkpoints import keep
from runs.selectors import view_of
from runs.states import OnBusy, Reuse
from tests.builders import a_claim, a_run, silent
from tests.races.two_actors import race
from tests.runs.decisions.test_compensations import an_operation
from tests.runs.decisions.test_conversations import a_first_turn, a_new
from tests.runs.retention.conftest import a_text, a_told_run, make_older
from tests.streaming.writing import emit, end, late_words, stored

pytestmark = pytest.mark.django_db(transaction=True)


def log_of(run: Run) -> list[dict[str, Any]]:
    rows = Event.objects.filter(stream_id=run.stream_id).order_by("seq")
    return [frames.decode(row.seq, row.data) for row in rows]


def check(run: Run, whole: tuple[dict[str, Any], int]) -> None:
    """The view is the same, the log is whole from the floor on, and the floor is told alike."""
    run.refresh_from_db()
    log = log_of(run)
    assert view_of(run) == whole
    assert [first_seq(frame) for frame in log] == [run.floor_seq, *(frame["seq"] + 1 for frame in log)][: len(log)]
    assert Checkpoint.objects.get(stream_id=run.stream_id).floor_seq == run.floor_seq


def a_joining(run: Run) -> Any:
    spans = find_spans(log_of(run))
    return join_texts(Joining(run.stream_id, 1, 0, run.last_seq, spans, None))


def a_trimming(run: Run, floor: int, *, days: float | None = None) -> Any:
    return trim(Trimming(run.pk, run.stream_id, floor, 1000, days))


@pytest.fixture
def run(owner: Any) -> Run:
    """An old run with a text from 3 to 11 and a checkpoint at its head, 14."""
    run = a_told_run(owner, *a_text("m", 9))
    make_older(run, days=400)
    keep(run.stream_id)
    return run


def test_two_supervisors_join_the_same_texts(run: Run) -> None:
    whole = view_of(run)
    assert race(a_joining(run), a_joining(run)) == (True, False)
    check(run, whole)
    assert stored(run) == [1, 2, 11, 12, 13, 14]


def test_texts_are_joined_while_their_beginning_is_deleted(run: Run) -> None:
    """Join after trim: the floor is not what was read any more."""
    whole = view_of(run)
    assert race(a_trimming(run, 6), a_joining(run)) == (5, False)
    check(run, whole)


def test_the_beginning_is_deleted_while_texts_are_joined(run: Run) -> None:
    """Trim after join: the row that stands for 3 to 11 is left whole, and the floor is where it begins."""
    whole = view_of(run)
    assert race(a_joining(run), a_trimming(run, 6)) == (True, 2)
    check(run, whole)
    assert run.floor_seq == 3


def test_two_supervisors_delete_the_same_events(run: Run) -> None:
    whole = view_of(run)
    assert race(a_trimming(run, 6), a_trimming(run, 9)) == (5, 3)
    check(run, whole)
    assert run.floor_seq == 9


def test_two_supervisors_keep_a_view_each(run: Run) -> None:
    emit(run, *late_words(2), rings=False)
    whole = view_of(run)
    new = NewView(run.stream_id, 14, 16, '{"seq": 16}', 5, is_anew=False)
    late = NewView(run.stream_id, 14, 15, '{"seq": 15}', 5, is_anew=False)
    assert race(keep_view(new, compact_after_hours=1), keep_view(late, compact_after_hours=1)) == (True, False)
    assert Checkpoint.objects.get().seq == 16
    Checkpoint.objects.all().delete()
    first = NewView(run.stream_id, None, 16, '{"seq": 16}', 5, is_anew=True)
    assert race(keep_view(first, compact_after_hours=1), keep_view(first, compact_after_hours=1)) == (True, False)
    assert whole[1] == 16


def test_events_are_deleted_up_to_a_checkpoint_that_has_just_moved(run: Run) -> None:
    """Keep and trim: the bound of the floor is read after the lock."""
    emit(run, *late_words(2), rings=False)
    view, seq = view_of(run)
    new = NewView(run.stream_id, 14, 16, frames.dump(view), 5, is_anew=False)
    assert race(keep_view(new, compact_after_hours=1), a_trimming(run, 2**62)) == (True, 16)
    check(run, (view, seq))


def test_events_are_written_while_the_oldest_are_deleted(owner: Any) -> None:
    run = a_run(owner)
    fence = a_claim(run)
    emit(run, *a_text("m", 9, ends=False), rings=False)
    keep(run.stream_id)
    run.refresh_from_db()
    head = run.last_seq
    origin = frames.Origin(run.pk, run.attempt, run.stream_id)
    delta = frames.draft(origin, "text.delta", {"message_id": "m", "delta": "more"}, at=run.created_at)
    batch = Batch(run.pk, fence, 1, [delta])
    deleted, firsts = race(a_trimming(run, 6), append_many([batch]))
    assert (deleted, firsts) == (5, {run.pk: head + 1})
    check(run, view_of(run))
    assert (stored(run)[0], stored(run)[-1]) == (6, head + 1)


def a_retry(run: Run) -> Any:
    return retry.retry(retry.Wish(run.pk, run.created_by_id, "owner", reuse=Reuse.NOTHING))


def test_a_retry_comes_before_the_expiry(run: Run) -> None:
    """The run is not settled any more, so nothing of it is deleted by age."""
    old = run.stream_id
    made, deleted = race(a_retry(run), a_trimming(run, 2**62, days=90))
    assert (isinstance(made, retry.Retried), deleted) == (True, 0)
    assert Event.objects.filter(stream_id=old).count() == 14


def test_a_retry_comes_after_the_expiry(run: Run) -> None:
    """The new attempt has a stream of its own, whose floor is its start."""
    deleted, made = race(a_trimming(run, 2**62, days=90), a_retry(run))
    assert (deleted, isinstance(made, retry.Retried)) == (14, True)
    run.refresh_from_db()
    assert (run.floor_seq, stored(run)) == (1, [1])


def test_a_retry_comes_before_the_run_is_deleted(run: Run) -> None:
    made, deleted = race(a_retry(run), forgetting.forget(run_id=run.pk, days=365))
    assert (isinstance(made, retry.Retried), deleted) == (True, 0)
    assert Run.objects.count() == 1


def test_a_retry_comes_after_the_run_was_deleted(run: Run) -> None:
    deleted, made = race(forgetting.forget(run_id=run.pk, days=365), a_retry(run))
    assert (deleted, made) == (1, retry.NotRetried("missing"))
    assert not Run.objects.exists()


def an_old_conversation(owner: Any) -> Run:
    """A conversation of one turn that ended long ago."""
    run = a_first_turn(owner)
    end(run, rings=False)
    make_older(run, days=400)
    run.refresh_from_db()
    return run


def a_message(owner: Any, run: Run) -> Any:
    return conversations.send(conversation_id=run.conversation_id, new=a_new(owner), on_busy=OnBusy.REJECT)


def test_a_message_comes_before_its_conversation_is_deleted(owner: Any) -> None:
    run = an_old_conversation(owner)
    sent, deleted = race(a_message(owner, run), forgetting.forget(run_id=run.pk, days=365))
    assert (isinstance(sent, conversations.Started), deleted) == (True, 0)
    assert Run.objects.filter(conversation_id=run.conversation_id).count() == 2


def test_a_message_comes_after_its_conversation_was_deleted(owner: Any) -> None:
    run = an_old_conversation(owner)
    deleted, sent = race(forgetting.forget(run_id=run.pk, days=365), a_message(owner, run))
    assert (deleted, sent) == (1, conversations.NotSent("missing"))
    assert not Run.objects.exists()


def test_a_view_is_not_kept_of_a_run_that_was_deleted(run: Run) -> None:
    emit(run, *late_words(1), rings=False)
    make_older(run, days=1)
    assert decide(forgetting.forget(run_id=run.pk, days=365), ring=silent) == 1
    new = NewView(run.stream_id, 14, 15, "{}", 5, is_anew=False)
    assert decide(keep_view(new, compact_after_hours=1), ring=silent) is False
    assert not Checkpoint.objects.exists()


def test_a_compensation_is_asked_for_while_the_workspace_that_it_needs_is_about_to_go(owner: Any) -> None:
    """Clear after request: the clearing has read the ledger before it waited, and looks again."""
    operation = an_operation(owner)
    make_older(operation.run, days=31)
    asked = compensations.request(
        operation_id=operation.pk, version=operation.version, by=owner.user.pk, by_name="owner", note="a mistake"
    )
    wanted, may_go = race(asked, lock_cleared(run_id=operation.run_id, days=30))
    assert (isinstance(wanted, compensations.NotCompensated), may_go) == (False, False)
