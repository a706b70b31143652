"""What must be true of a run after every commit, whoever raced whom: read from its rows, not from any code of ours."""

from typing import Any
from uuid import UUID

from django.db import connection

from runs import frames
from runs.models import Event, Run
from runs.states import CLAIMABLE, ENDED, EPILOGUE, TERMINAL_EVENT, Status

BEGINS = {"step.started", "model.started", "tool.started", "tool.dispatched", "text.start", "input.requested"}
COUNTS = """
select
  (select count(*) from runs_operation where run_id = r.id and state = 'dispatched') as dispatched,
  (select count(*) from runs_operation where run_id = r.id and state = 'unknown') as unknown,
  (select count(*) from runs_step s where s.run_id = r.id and s.state = 'open' and s.kind in ('model', 'tool')
     and not exists (select 1 from runs_operation o where o.step_id = s.id)) as calls,
  (select count(*) from runs_step where run_id = r.id and state = 'open') as steps,
  (select count(*) from runs_question where run_id = r.id and state = 'open') as questions,
  (select count(*) from runs_controlconnection where run_id = r.id and is_live) as connections,
  (select count(*) from runs_outboxrow where run_id = r.id) as wishes
from runs_run r where r.id = %s"""


def check(run_id: UUID) -> Run:
    """Assert every invariant of one run and return it."""
    run = Run.objects.get(pk=run_id)
    events = [
        frames.decode(seq, data)
        for seq, data in Event.objects.filter(stream_id=run.stream_id).order_by("seq").values_list("seq", "data")
    ]
    types = [event["type"] for event in events]
    has = _count(run)
    assert [event["seq"] for event in events] == list(range(1, run.last_seq + 1)), "the log has a hole"
    _check_stop(types)
    _check_texts(events)
    _check_end(run, types, has)
    assert run.open_ops == has["dispatched"] + has["calls"], "open_ops is not what the ledger says"
    assert run.unknown_ops == has["unknown"], "unknown_ops is not what the ledger says"
    assert run.control_count == has["connections"]
    if run.status in CLAIMABLE and run.lease_owner is None:
        assert has["wishes"], "nobody will ever come for this run"
    if run.status == Status.WAITING:
        assert run.wake_at or has["questions"], "it waits for nothing"
    return run


def _count(run: Run) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(COUNTS, [run.pk])
        return dict(zip([c.name for c in cursor.description], cursor.fetchone(), strict=True))


def _check_end(run: Run, types: list[str], has: dict[str, int]) -> None:
    ends = [i for i, name in enumerate(types) if name in TERMINAL_EVENT.values()]
    if run.status not in ENDED:
        assert ends == [], "a terminal event of a run that has not ended"
        return
    assert len(ends) == 1, "one terminal event, not more and not less"
    assert set(types[ends[0] + 1 :]) <= EPILOGUE, "something besides the epilogue came after the end"
    if "run.reconciled" not in types:
        assert types[ends[0]] == TERMINAL_EVENT[Status(run.status)]
    is_open = {name: has[name] for name in ("steps", "questions", "wishes", "connections") if has[name]}
    assert not is_open, "something is open after the end"
    assert (run.open_ops, run.lease_until) == (0, None)


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
