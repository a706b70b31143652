"""Steps that wait: a question to a person, and a timer. While nothing else runs, the run holds no worker."""

import asyncio
import json
import math
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from pydantic import BaseModel

from runs.agents.context import Schema
from runs.agents.errors import InputTimeout
from runs.conf import limits
from runs.decisions.claims import Lost
from runs.decisions.core import Fact
from runs.decisions.dispatch import Refused, StepCall
from runs.decisions.timers import finish_timer
from runs.decisions.waiting import Asked, TimerSet, ask, set_timer
from runs.execution.branches import For, Parked
from runs.execution.claim import Claim
from runs.execution.earlier import StoredStep
from runs.execution.gate import refused
from runs.execution.history import in_order, step_call
from runs.execution.reuse import find_stored
from runs.ids import new_id, text_id
from runs.states import QuestionState, StepState

# A shorter sleep is cheaper than giving the run away and taking it again.
SHORT_SLEEP_SECONDS = 2.0
QUESTION_POLL_SECONDS = 1.0

LANDED_QUESTION = "select step_id, expires_at from runs_question where id = %(question)s"
SECONDS_LEFT = "select extract(epoch from %(wake_at)s::timestamptz - clock_timestamp()) as seconds"
LANDED_TIMER = """
select id, (result ->> 'wake_at')::timestamptz as wake_at from runs_step
where stream_id = %(stream)s and path = %(path)s and state = 'open' and fence = %(fence)s"""
ENDED_CHILDREN = """
select s.id, s.state, s.result, s.error, s.state = 'open' as is_in_doubt
from runs_step s join runs_run c on c.parent_step_id = s.id
where s.id = any(%(steps)s) and (s.state <> 'open' or c.told_parent = 'doubt')"""
CLOSED_QUESTIONS = """
select id, state, value from runs_question where id = any(%(questions)s) and state in ('answered', 'expired')"""


async def ask_person(claim: Claim, prompt: str, schema: Schema, timeout_seconds: float | None) -> Any:
    """Ask, and return the answer. Raises: InputTimeout, ScopeCancelled, Unwind."""
    asked = _json_schema(schema)
    step = step_call(claim.branches.next_path(), "ask", "ask", {"prompt": prompt, "schema": asked})
    stored = await find_stored(claim, step, lambda earlier: _told_again(earlier, prompt, asked))
    if stored is not None and stored.state is StepState.FINISHED:
        return _answer(schema, stored.value)
    question_id = stored.question_id if stored is not None else None
    if stored is not None and stored.state is StepState.FAILED:
        assert question_id is not None  # an ask step and its question are one transaction
        raise InputTimeout(text_id("q", question_id), prompt)
    if question_id is None:
        await claim.pass_boundary()
        question_id = await _put_question(claim, step, prompt, asked, timeout_seconds)
    state, value = await claim.branches.park(Parked(For.INPUT, question_id=question_id))
    if state == QuestionState.EXPIRED:
        raise InputTimeout(text_id("q", question_id), prompt)
    return _answer(schema, value)


def _json_schema(schema: Schema) -> dict[str, Any]:
    if not isinstance(schema, type):
        return dict(schema)
    if not issubclass(schema, BaseModel):
        raise TypeError(f"ctx.ask(schema=...) takes a pydantic model or a JSON schema, not {schema.__name__}.")
    return schema.model_json_schema()


def _told_again(earlier: StoredStep, prompt: str, schema: dict[str, Any]) -> list[Fact]:
    assert earlier.question_id is not None  # an ask step and its question are one transaction
    question_id = text_id("q", earlier.question_id)
    asked = {"question_id": question_id, "prompt": prompt, "schema": schema, "expires_at": None}
    return [
        Fact("input.requested", asked),
        Fact("input.answered", {"question_id": question_id, "value": earlier.value}),
    ]


async def _put_question(
    claim: Claim, step: StepCall, prompt: str, schema: dict[str, Any], timeout_seconds: float | None
) -> UUID:
    question_id = new_id()

    async def landed() -> Asked | None:
        rows = await claim.fetch(LANDED_QUESTION, question=question_id)
        return Asked(question_id, rows[0]["step_id"], rows[0]["expires_at"]) if rows else None

    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: ask(
                run_id=claim.origin.run_id,
                fence=claim.held.fence,
                step=step,
                question_id=question_id,
                prompt=prompt,
                schema=schema,
                timeout_seconds=timeout_seconds or limits().input_timeout_seconds,
            ),
            landed=landed,
        )
        if isinstance(answer, Refused):
            await refused(claim, answer.reason)
    return question_id


def _answer(schema: Schema, value: Any) -> Any:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_validate_json(json.dumps(value))
    return value


async def watch_questions(claim: Claim) -> None:
    """Let a branch go on whose question was closed or whose child has ended; when all are parked, the wait sees it."""
    while True:
        await asyncio.sleep(QUESTION_POLL_SECONDS)
        await resume_answered(claim)


async def resume_answered(claim: Claim) -> None:
    """Look once whether a question that a branch waits for was closed, or a child has ended."""
    if children := claim.branches.parked_children():
        for row in await claim.fetch(ENDED_CHILDREN, steps=children):
            value = in_order((row["result"] or {}).get("value"))
            claim.branches.resume(row["id"], (row["state"], value, row["error"] or {}, row["is_in_doubt"]))
    if questions := claim.branches.parked_inputs():
        for row in await claim.fetch(CLOSED_QUESTIONS, questions=questions):
            claim.branches.resume(row["id"], (row["state"], (row["value"] or {}).get("value")))


async def sleep(claim: Claim, seconds: float) -> None:
    """Wait at least that long. Raises: ScopeCancelled, Unwind; ValueError for what is no length of time."""
    if not 0 <= seconds < math.inf:
        raise ValueError(f"ctx.sleep takes seconds, not {seconds!r}.")
    step = step_call(claim.branches.next_path(), "timer", "sleep", {"seconds": seconds})
    await pass_timer(claim, step, await find_stored(claim, step), seconds)


async def pass_timer(claim: Claim, step: StepCall, stored: StoredStep | None, seconds: float) -> None:
    """Let the timer of this step pass, from when it was first set. Raises: ScopeCancelled, Unwind."""
    if stored is not None and stored.state is StepState.FINISHED:
        return
    if stored is not None and stored.wake_at is not None:
        step_id, wake_at = stored.id, stored.wake_at
    else:
        await claim.pass_boundary()
        step_id, wake_at = await _start_timer(claim, step, seconds)
    while not await _try_finish(claim, step_id):
        await _until(claim, wake_at)


async def _start_timer(claim: Claim, step: StepCall, seconds: float) -> tuple[UUID, datetime]:
    async def landed() -> TimerSet | None:
        stream = claim.origin.stream_id
        rows = await claim.fetch(LANDED_TIMER, stream=stream, path=step.path, fence=claim.held.fence)
        return TimerSet(rows[0]["id"], rows[0]["wake_at"]) if rows else None

    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: set_timer(run_id=claim.origin.run_id, fence=claim.held.fence, step=step, seconds=seconds),
            landed=landed,
        )
        if isinstance(answer, Refused):
            await refused(claim, answer.reason)
    assert isinstance(answer, TimerSet)  # a refusal has raised
    return answer.step_id, answer.wake_at


async def _until(claim: Claim, wake_at: datetime) -> None:
    left = await _seconds_left(claim, wake_at)
    if left <= SHORT_SLEEP_SECONDS:
        await claim.scope.bound(asyncio.sleep(left))
        return
    parked = Parked(For.TIMER, wake_at=wake_at)
    alarm = asyncio.get_running_loop().call_later(left, claim.branches.ring, parked)
    try:
        await claim.branches.park(parked)
    finally:
        alarm.cancel()


async def _seconds_left(claim: Claim, wake_at: datetime) -> float:
    """Ask the database, whose clock decides: with one of ours that is ahead a long sleep would be a busy loop."""
    try:
        rows = await claim.fetch(SECONDS_LEFT, wake_at=wake_at)
    except psycopg.OperationalError:
        return SHORT_SLEEP_SECONDS  # then ask again
    return max(0.005, float(rows[0]["seconds"]))


async def _try_finish(claim: Claim, step_id: UUID) -> bool:
    with claim.branches.step_in_flight():
        answer = await claim.decide(
            lambda: finish_timer(run_id=claim.origin.run_id, fence=claim.held.fence, step_id=step_id)
        )
    if isinstance(answer, Lost):
        claim.lost()
    return answer
