"""A call that was refused for now is tried again: under one key, after durable pauses, and not after a stop."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from pydantic import BaseModel

from runs import services
from runs.agents import RunContext, agent
from runs.models import Run, Step
from runs.testing.lab import Outlive
from tools import Effect, Retry, ToolCall, ToolError, tool

asked: list[str] = []
refusals: list[ToolError] = []


def _answer(call: ToolCall) -> int:
    call.open()
    asked.append(call.operation_key)
    if refusals:
        raise refusals.pop(0)
    return len(asked)


@tool(effect=Effect.IDEMPOTENT, look_up=None, retry=Retry(tries=3, first_pause_seconds=0.02))
async def back_off_quickly(call: ToolCall) -> int:
    """Refuse for now, as often as the test says."""
    return _answer(call)


@tool(effect=Effect.READ, retry=Retry(tries=3, first_pause_seconds=0.02))
async def back_off_reading(call: ToolCall) -> int:
    """Refuse for now, as often as the test says."""
    return _answer(call)


@tool(effect=Effect.IDEMPOTENT, look_up=None, retry=Retry(tries=3, first_pause_seconds=60))
async def back_off_slowly(call: ToolCall) -> int:
    """Refuse for now, as often as the test says."""
    return _answer(call)


class Request(BaseModel):
    """Which tool, and whether a person is asked after it."""

    tool: str
    asks: bool = False


@agent("back_off", listed=False)
async def back_off_agent(ctx: RunContext, request: Request) -> Any:
    """Call the tool, and perhaps wait for a person."""
    value = await ctx.tool(request.tool)
    if request.asks:
        await ctx.ask("Well?", schema={"type": "object"})
    return value


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    asked.clear()
    refusals.clear()
    yield
    refusals.clear()


def refuse(times: int, *, retryable: bool = True) -> None:
    refusals.extend(ToolError("Not now.", code="busy", retryable=retryable) for _ in range(times))


@pytest.mark.parametrize("name", ["back_off_quickly", "back_off_reading"])
def test_it_is_tried_again_under_one_key_until_it_works(outlive: Outlive, name: str) -> None:
    refuse(2)
    run = outlive.run("back_off", {"tool": name})
    assert (run.status, run.result, len(set(asked))) == ("completed", 3, 1)
    assert [s.path for s in Step.objects.filter(run_id=run.pk).order_by("started_at")] == ["1.0.1", "1.0.2", "1"]
    assert run.types.count("tool.started") == 3


def test_after_its_last_try_the_refusal_is_the_agents(outlive: Outlive) -> None:
    refuse(5)
    run = outlive.run("back_off", {"tool": "back_off_quickly"})
    assert (run.status, len(asked)) == ("failed", 3)
    assert Run.objects.get(pk=run.pk).error_code == "busy"


def test_a_refusal_for_good_is_not_tried_again(outlive: Outlive) -> None:
    refuse(1, retryable=False)
    run = outlive.run("back_off", {"tool": "back_off_quickly"})
    assert (run.status, len(asked)) == ("failed", 1)


def test_a_crash_between_two_tries_does_not_count_from_the_start(outlive: Outlive) -> None:
    refuse(5)
    run = outlive.start("back_off", {"tool": "back_off_slowly"})
    outlive.until(lambda: run.status == "waiting")
    assert len(asked) == 1
    crash = outlive.crash_at("before_dispatch")
    _let_the_pause_be_over(run.pk)
    outlive.until(lambda: crash.happened and run.status == "waiting")
    assert len(asked) == 2
    steps = {step.path: step for step in Step.objects.filter(run_id=run.pk)}
    assert (steps["1"].error["tries"], steps["1.0.1"].state, steps["1.0.2"].state) == (2, "finished", "open")


def _let_the_pause_be_over(run_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute("update runs_run set wake_at = clock_timestamp() where id = %s", [run_id])
        cursor.execute(
            """update runs_step set result = jsonb_set(result, '{wake_at}', to_jsonb(clock_timestamp()))
               where run_id = %s and kind = 'timer' and state = 'open'""",
            [run_id],
        )


def test_what_has_worked_is_not_waited_for_again(outlive: Outlive) -> None:
    refuse(1)
    run = outlive.run("back_off", {"tool": "back_off_quickly", "asks": True})
    assert run.status == "waiting"
    run.answer({})
    assert (run.to_end().status, run.result, len(asked)) == ("completed", 2, 2)


def test_b10_a_stop_in_a_long_pause_ends_it_at_once_and_nothing_is_tried_again(outlive: Outlive) -> None:
    refuse(5)
    run = outlive.start("back_off", {"tool": "back_off_slowly"})
    outlive.until(lambda: run.status == "waiting")
    row = Run.objects.get(pk=run.pk)
    assert (row.status, row.waiting_for, row.lease_owner) == ("waiting", "timer", None)
    stopped = services.cancel_run(actor=outlive.actor, run_id=run.pk)
    assert (stopped.run.status, len(asked)) == ("cancelled", 1)
    assert Run.objects.get(pk=run.pk).attempt == 1


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"first_pause_seconds": 0}, {"longest_pause_seconds": 0.5}])
def test_a_retry_that_makes_no_sense_is_refused_where_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        Retry(**wrong)


def test_the_pauses_double_up_to_the_longest() -> None:
    retry = Retry(tries=9, first_pause_seconds=1, longest_pause_seconds=5)
    assert [retry.pause_seconds(n) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 5, 5]
