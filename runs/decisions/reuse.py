"""Taking over a finished step of an earlier attempt: its result, its operation, and what the stream says of it."""

from uuid import UUID

from runs.decisions.core import Decision, Fact, Query, record
from runs.decisions.dispatch import Refused, StepCall, begin_step
from runs.decisions.steps import Done, lock_running
from runs.errors import RuleBroken

COPY = """
update runs_step s set state = 'finished', result = old.result, finished_at = clock_timestamp()
from runs_step old, runs_attempt a
where s.id = %(step)s and old.id = %(old)s and old.run_id = s.run_id and old.stream_id <> s.stream_id
  and old.state = 'finished' and old.digest = s.digest and a.stream_id = old.stream_id
returning a.number"""
MOVES = (
    "update runs_operation set step_id = %(step)s, version = version + 1 where step_id = %(old)s",
    "update runs_question set step_id = %(step)s where step_id = %(old)s",
)


def take_over_step(
    *, run_id: UUID, fence: int, step: StepCall, old_step_id: UUID, facts: list[Fact]
) -> Decision[Done | Refused]:
    """Store a finished step of an earlier attempt as one of this attempt; nothing is called and nothing is spent.

    Args: facts: what the stream says between the step's start and its end.
    Raises: RuleBroken when the old step is another call, of another run, or has no result.
    """
    run = yield from lock_running(run_id, fence)
    if isinstance(run, Refused):
        return run
    step_id = yield from begin_step(run, fence, step)
    rows = yield Query(COPY, {"step": step_id, "old": old_step_id})
    if not rows:
        raise RuleBroken(f"step {step.path} cannot take over {old_step_id}")
    for moves in MOVES:  # what hangs on the step goes on as this attempt's
        yield Query(moves, {"step": step_id, "old": old_step_id})
    number = rows[0]["number"]
    opened = {"path": step.path, "kind": step.kind, "name": step.name, "reused_from": number}
    if step.effect:
        opened["effect"] = step.effect
    closed = {"path": step.path, "kind": step.kind, "state": "finished"}
    yield from record(
        run,
        [
            Fact("step.started", opened, step_id),
            *(Fact(f.type, f.data, step_id) for f in facts),
            Fact("step.finished", closed, step_id),
        ],
    )
    return Done(None)
