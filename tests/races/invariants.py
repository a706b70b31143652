"""What must be true of a run after every commit, whoever raced whom: read from its rows, not from any code of ours."""

from typing import Any
from uuid import UUID

from runs import frames
from runs.models import ControlConnection, Event, Operation, OutboxRow, Question, Run, Step
from runs.states import CLAIMABLE, ENDED, EPILOGUE, TERMINAL_EVENT, Status

BEGINS = {"step.started", "model.started", "tool.started", "tool.dispatched", "text.start", "input.requested"}


def check(run_id: UUID) -> Run:
    """Assert every invariant of one run and return it."""
    run = Run.objects.get(pk=run_id)
    events = [
        frames.decode(seq, data)
        for seq, data in Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("seq", "data")
    ]
    assert [event["seq"] for event in events] == list(range(1, run.last_seq + 1)), "the log has a hole"
    _check_end(run, [event["type"] for event in events])
    _check_stop([event["type"] for event in events])
    _check_texts(events)
    _check_counters(run)
    if run.status in CLAIMABLE and run.lease_owner is None:
        assert OutboxRow.objects.filter(run=run).exists(), "nobody will ever come for this run"
    if run.status == Status.WAITING:
        assert run.wake_at or Question.objects.filter(run=run, state="open").exists(), "it waits for nothing"
    return run


def _check_end(run: Run, types: list[str]) -> None:
    ends = [i for i, name in enumerate(types) if name in TERMINAL_EVENT.values()]
    if run.status not in ENDED:
        assert ends == [], "a terminal event of a run that has not ended"
        return
    assert len(ends) == 1, "one terminal event, not more and not less"
    assert set(types[ends[0] + 1 :]) <= EPILOGUE, "something besides the epilogue came after the end"
    if "run.reconciled" not in types:
        assert types[ends[0]] == TERMINAL_EVENT[Status(run.status)]
    assert not Step.objects.filter(run=run, state="open").exists(), "a step is open after the end"
    assert not Question.objects.filter(run=run, state="open").exists(), "a question is open after the end"
    assert not OutboxRow.objects.filter(run=run).exists(), "somebody is still asked for"
    assert (run.open_ops, run.control_count) == (0, 0)
    assert run.lease_until is None


def _check_stop(types: list[str]) -> None:
    if "run.cancel_requested" in types:
        later = types[types.index("run.cancel_requested") :]
        assert not BEGINS.intersection(later), "something began after the stop was asked for"
        assert "run.completed" not in later


def _check_texts(events: list[dict[str, Any]]) -> None:
    is_open: set[str] = set()
    for event in events:
        if event["type"] == "text.start":
            is_open.add(event["data"]["message_id"])
        if event["type"] == "text.end":
            is_open.remove(event["data"]["message_id"])
        if event["type"] in TERMINAL_EVENT.values():
            assert not is_open, "a text is open at the end"


def _check_counters(run: Run) -> None:
    operations = Operation.objects.filter(run=run)
    calls = Step.objects.filter(run=run, state="open", kind__in=("model", "tool"), operations__isnull=True)
    dispatched = operations.filter(state="dispatched").count()
    assert run.open_ops == dispatched + calls.count(), "open_ops is not what the ledger says"
    assert run.unknown_ops == operations.filter(state="unknown").count(), "unknown_ops is not what the ledger says"
    assert run.control_count == ControlConnection.objects.filter(run=run, is_live=True).count()
