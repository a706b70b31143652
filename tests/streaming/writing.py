"""Writes events into a run's stream as decisions do, with or without their doorbells."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from runs.database import decide
from runs.decisions import cancels
from runs.decisions.core import Decision, Fact, lock_run, record
from runs.ids import new_id
from runs.models import Attempt, Event, Run
from runs.ringing import ring_now
from runs.states import CancelReason
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
    """Begin another attempt of an ended run as a retry will (issue D): a new stream, whose first event names it."""
    stream_id = new_id()
    Attempt.objects.create(stream_id=stream_id, run=run, number=run.attempt + 1)
    fields: dict[str, Any] = {"stream_id": stream_id, "attempt": run.attempt + 1, "last_seq": 0, "status": "queued"}
    fields |= {"terminal_at": None, "cancel_id": None, "cancel_requested_at": None, "cancel_reason": None}
    Run.objects.filter(pk=run.pk).update(**fields)
    run.refresh_from_db()
    emit(run, Fact("attempt.created", {"number": run.attempt}))
    return stream_id
