"""Waiting without a worker: questions to people and timers, and what wakes a run.

`wakes` on the row grows with every answer, expiry and timer. A run waits only if `wakes` is still what it was
before the run looked (RULES H11), so a wake-up between the look and the wait is never lost.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.decisions.core import (
    Decision,
    Fact,
    Query,
    Row,
    ask_for_worker,
    iso,
    jsonb,
    lock_run,
    record,
    tell_worker,
)
from runs.decisions.dispatch import Refused, StepCall, begin_step
from runs.ids import text_id
from runs.states import QuestionState, Status


@dataclass(frozen=True, slots=True)
class Asked:
    """The question is visible; the run may wait for it."""

    question_id: UUID
    step_id: UUID
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class TimerSet:
    """The timer's step is open until `wake_at`."""

    step_id: UUID
    wake_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """The claim is given back; a wake-up asks for a worker."""


@dataclass(frozen=True, slots=True)
class NotWaiting:
    """lost | cancel | woken (something arrived meanwhile: run again) | open (a call is in flight)."""

    reason: str


RUNNING = "select id from runs_run where id = %(run)s and fence = %(fence)s and status = 'running'"


def _running(run_id: UUID, fence: int) -> Decision[Row | Refused]:
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence:
        return Refused("lost")
    rows = yield Query(RUNNING, {"run": run_id, "fence": fence})
    if not rows:
        return Refused("cancel" if run["cancel_id"] else "not_running")
    return run


def ask(
    *, run_id: UUID, fence: int, step: StepCall, question_id: UUID, prompt: str, schema: dict[str, Any],
    timeout_seconds: float,
) -> Decision[Asked | Refused]:  # fmt: skip
    """Put a question to people. It stays answerable while the run is running or waiting."""
    run = yield from _running(run_id, fence)
    if isinstance(run, Refused):
        return run
    step_id = yield from begin_step(run, fence, step, None)
    rows = yield Query(
        """insert into runs_question (id, run_id, step_id, prompt, schema, state, expires_at)
           values (%(id)s, %(run)s, %(step)s, %(prompt)s, %(schema)s, 'open',
                   clock_timestamp() + %(timeout)s * interval '1 second') returning expires_at""",
        {"id": question_id, "run": run_id, "step": step_id, "prompt": prompt, "schema": jsonb(schema),
         "timeout": timeout_seconds},
    )  # fmt: skip
    expires_at = rows[0]["expires_at"]
    data = {"question_id": text_id("q", question_id), "prompt": prompt, "schema": schema, "expires_at": iso(expires_at)}
    started = Fact("step.started", {"path": step.path, "kind": "ask", "name": step.name}, step_id)
    yield from record(run, [started, Fact("input.requested", data, step_id)])
    return Asked(question_id, step_id, expires_at)


def set_timer(*, run_id: UUID, fence: int, step: StepCall, seconds: float) -> Decision[TimerSet | Refused]:
    """Open a timer step; the run may wait until `wake_at` without a worker."""
    run = yield from _running(run_id, fence)
    if isinstance(run, Refused):
        return run
    step_id = yield from begin_step(run, fence, step, None)
    rows = yield Query("select clock_timestamp() + %(s)s * interval '1 second' as wake_at", {"s": seconds})
    wake_at: datetime = rows[0]["wake_at"]
    yield Query(
        "update runs_step set result = %(wake)s where id = %(step)s",
        {"wake": jsonb({"wake_at": iso(wake_at)}), "step": step_id},
    )
    yield from record(run, [Fact("step.started", {"path": step.path, "kind": "timer", "name": step.name}, step_id)])
    return TimerSet(step_id, wake_at)


def wait(
    *, run_id: UUID, fence: int, wakes: int, waiting_for: str, wake_at: datetime | None = None
) -> Decision[Waiting | NotWaiting]:
    """Give the claim back until something wakes the run.

    Args: wakes: the row's counter as it was read before the run looked for answers; waiting_for: input | timer | child.
    With something unknown a run does not wait but parks; only children that go on keep it from that (RULES H9, H14).
    """
    run = yield from lock_run(run_id)
    rows = yield Query(
        """update runs_run set status = 'waiting', waiting_for = %(what)s, wake_at = %(wake_at)s, deaths = 0,
             fence = fence + 1, lease_until = null, lease_owner = null
           where id = %(run)s and fence = %(fence)s and status = 'running' and open_ops = 0
             and (unknown_ops = 0 or open_children > 0) and wakes = %(wakes)s returning id""",
        {"run": run_id, "fence": fence, "wakes": wakes, "what": waiting_for, "wake_at": wake_at},
    )
    if run is None or not rows:
        return NotWaiting(_why_not(run, fence, wakes))
    yield from record(run, [Fact("run.waiting", {"waiting_for": waiting_for, "wake_at": iso(wake_at)})])
    return Waiting()


def _why_not(run: Row | None, fence: int, wakes: int) -> str:
    if run is None or run["fence"] != fence:
        return "lost"
    if run["cancel_id"]:
        return "cancel"
    return "woken" if run["wakes"] != wakes else "open"


def wake(run: Row, facts: list[Fact]) -> Decision[None]:
    """Count a wake-up, and let a waiting run go on: it is `running` without a claim until a worker takes it."""
    rows = yield Query(
        """update runs_run r set wakes = wakes + 1, waiting_for = null, wake_at = null,
             status = case r.status when 'waiting' then 'running' else r.status end
           where id = %(run)s and status in ('running', 'waiting') returning status""",
        {"run": run["id"]},
    )
    assert rows  # the caller checked the status under the same lock
    resumed = [Fact("run.resumed", {})] if run["status"] == Status.WAITING else []
    yield from record(run, [*facts, *resumed])
    if run["has_live_lease"]:
        yield from tell_worker(run)
    else:
        yield from ask_for_worker(run["id"])


@dataclass(frozen=True, slots=True)
class Closed:
    """won: this call closed the question. Else `state` and `value` tell who did."""

    won: bool
    state: str
    value: Any = None


def answer(*, run_id: UUID, question_id: UUID, value: Any, by: int, by_name: str) -> Decision[Closed | None]:
    """Take a person's answer; the first of answer, timeout and cancel wins. None: no such question here."""
    run = yield from lock_run(run_id)
    if run is None:
        return None
    rows = yield Query(
        "select * from runs_question where id = %(q)s and run_id = %(run)s for no key update",
        {"q": question_id, "run": run_id},
    )
    if not rows:
        return None
    question = rows[0]
    took = yield Query(
        """update runs_question set state = 'answered', value = %(value)s, answered_by_id = %(by)s,
             closed_at = clock_timestamp()
           where id = %(q)s and state = 'open' and expires_at > clock_timestamp()
             and exists (select 1 from runs_run where id = %(run)s and status in ('running', 'waiting'))
           returning id""",
        {"q": question_id, "run": run_id, "value": jsonb({"value": value}), "by": by},
    )
    if not took:
        state = question["state"]
        late = QuestionState.EXPIRED.value if state == "open" else state
        return Closed(False, late, (question["value"] or {}).get("value"))
    yield from _finish(question["step_id"], "finished", value, None)
    facts = [
        Fact("input.answered", {"question_id": text_id("q", question_id), "value": value, "by": by_name},
             question["step_id"]),
        Fact("step.finished", {"path": "", "kind": "ask", "state": "finished"}, question["step_id"]),
    ]  # fmt: skip
    yield from wake(run, facts)
    return Closed(True, "answered", value)


def expire_question(*, run_id: UUID, question_id: UUID) -> Decision[bool]:
    """Close an overdue question; the agent gets InputTimeout. False: somebody was faster."""
    run = yield from lock_run(run_id)
    if run is None:
        return False
    rows = yield Query(
        """update runs_question set state = 'expired', closed_at = clock_timestamp()
           where id = %(q)s and run_id = %(run)s and state = 'open' and expires_at <= clock_timestamp()
             and exists (select 1 from runs_run where id = %(run)s and status in ('running', 'waiting'))
           returning step_id""",
        {"q": question_id, "run": run_id},
    )
    if not rows:
        return False
    step_id = rows[0]["step_id"]
    error = {"code": "input_timeout", "message": "nobody answered in time"}
    yield from _finish(step_id, "failed", None, error)
    facts = [
        Fact("input.expired", {"question_id": text_id("q", question_id)}, step_id),
        Fact("step.finished", {"path": "", "kind": "ask", "state": "failed", "error": error}, step_id),
    ]
    yield from wake(run, facts)
    return True


def fire_timer(*, run_id: UUID) -> Decision[bool]:
    """Wake a run whose `wake_at` has passed. False: it is not due, or no longer waiting."""
    run = yield from lock_run(run_id)
    rows = yield Query(
        """select id from runs_run where id = %(run)s and status = 'waiting' and waiting_for = 'timer'
             and wake_at <= clock_timestamp()""",
        {"run": run_id},
    )
    if run is None or not rows:
        return False
    steps = yield Query(
        """update runs_step set state = 'finished', finished_at = clock_timestamp()
           where stream_id = %(stream)s and kind = 'timer' and state = 'open'
             and (result ->> 'wake_at')::timestamptz <= clock_timestamp() + interval '1 millisecond'
           returning id, path""",
        {"stream": run["stream_id"]},
    )
    facts = [Fact("step.finished", {"path": s["path"], "kind": "timer", "state": "finished"}, s["id"]) for s in steps]
    yield from wake(run, facts)
    return True


def _finish(step_id: UUID, state: str, value: Any, error: dict[str, Any] | None) -> Decision[None]:
    yield Query(
        """update runs_step set state = %(state)s, result = %(result)s, error = %(error)s,
             finished_at = clock_timestamp() where id = %(step)s and state = 'open'""",
        {"step": step_id, "state": state, "result": jsonb({"value": value}), "error": jsonb(error)},
    )
