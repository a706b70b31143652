"""A timer that its own run sees pass, beside other branches that are still at work."""

from uuid import UUID

from runs.decisions.claims import Lost
from runs.decisions.core import Decision, Fact, Query, lock_run, record


def finish_timer(*, run_id: UUID, fence: int, step_id: UUID) -> Decision[bool | Lost]:
    """Close the holder's timer step if its time has come by the database's clock. False: not yet.

    It is no wake-up: the run has not waited. A timer of a waiting run is `waiting.fire_timer`'s.
    """
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence:
        return Lost()
    rows = yield Query(
        """update runs_step set state = 'finished', finished_at = clock_timestamp()
           where id = %(step)s and kind = 'timer' and state = 'open'
             and (result ->> 'wake_at')::timestamptz <= clock_timestamp() + interval '1 millisecond'
           returning path""",
        {"step": step_id},
    )
    if rows:
        data = {"path": rows[0]["path"], "kind": "timer", "state": "finished"}
        yield from record(run, [Fact("step.finished", data, step_id)])
        return True
    closed = yield Query("select 1 from runs_step where id = %(step)s and state = 'finished'", {"step": step_id})
    return bool(closed)
