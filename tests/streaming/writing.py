"""Writes events into a run's stream as decisions do, with or without their doorbells."""

from collections.abc import Sequence
from uuid import UUID

from runs import frames
from runs.compaction import find_spans
from runs.database import decide
from runs.decisions import cancels, retry
from runs.decisions.core import Decision, Fact, lock_run, record
from runs.models import Event, Run
from runs.ringing import ring_now
from runs.states import CancelReason, Reuse
from tests.builders import silent


def emit(run: Run, *facts: Fact, rings: bool = True) -> int:
    """Store events in one transaction; returns the seq of the last one."""
    first = decide(_emit(run.pk, facts), ring=ring_now if rings else silent)
    return first + len(facts) - 1


def _emit(run_id: UUID, facts: Sequence[Fact]) -> Decision[int]:
    run = yield from lock_run(run_id)
    assert run is not None
    return (yield from record(run, facts))


def deltas(n: int, start: int = 0, pad: int = 0) -> list[Fact]:
    """Make text deltas."""
    extra = {"p": "x" * pad} if pad else {}
    return [Fact("text.delta", {"message_id": "msg_1", "delta": f"w{start + i} ", **extra}) for i in range(n)]


def late_words(n: int) -> list[Fact]:
    """Make events that may follow an end."""
    return [Fact("operation.settled", {"operation_id": f"op_{i}", "outcome": "confirmed"}) for i in range(n)]


def end(run: Run, *, rings: bool = True) -> None:
    """End a queued run: a stop ends it at once."""
    decide(
        cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER, by=run.created_by_id, note=""),
        ring=ring_now if rings else silent,
    )


def stored(run: Run) -> list[int]:
    """Give the seqs of the run's stream."""
    return list(Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("seq", flat=True))


def start_new_attempt(run: Run) -> UUID:
    """Retry an ended run; returns the new stream, whose first event names the attempt."""
    made = decide(retry.retry(retry.Wish(run.pk, run.created_by_id, "owner", reuse=Reuse.NOTHING)), ring=silent)
    assert isinstance(made, retry.Retried), made
    run.refresh_from_db()
    return made.stream_id


def join_deltas(run: Run) -> list[int]:
    """Put compacted frames in the place of the run's deltas, as a supervisor does later; returns the seqs that stay."""
    rows = Event.objects.filter(stream_id=run.stream_id).order_by("seq")
    for span in find_spans([frames.decode(row.seq, row.data) for row in rows]):
        Event.objects.filter(stream_id=run.stream_id, seq__gte=span.first, seq__lte=span.last).delete()
        frame = {key: value for key, value in span.frame.items() if key != "seq"}
        Event.objects.create(stream_id=run.stream_id, seq=span.last, type=frame["type"], data=frames.dump(frame))
    return stored(run)
