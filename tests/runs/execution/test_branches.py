"""Branches: paths, parallel steps, and the agent that comes apart when nothing can go on."""

import asyncio
import contextlib
from typing import Any

import pytest
from pydantic import BaseModel

from runs.agents import RunContext, ToolFailed
from runs.decisions import waiting
from runs.execution.branches import Branches, For, Parked
from runs.execution.signals import StepLimit, Unwind
from tests.runs.execution.conftest import OpenWorker, until
from tools import ToolError, tool
from tools.scope import CancelReason, Scope, ScopeCancelled

asked: list[str] = []


class Answer(BaseModel):
    """What a person says."""

    yes: bool


@tool(effect="read")
async def branch_word(word: str) -> str:
    """Return the word, or refuse "bad"."""
    asked.append(word)
    if word == "bad":
        raise ToolError("bad word", code="bad_word")
    return word


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


async def test_one_failing_branch_lets_the_others_be_settled(a_worker: OpenWorker) -> None:
    async def two(ctx: RunContext, *words: str) -> list[Any]:
        return [await ctx.tool(branch_word, word=word) for word in words]

    async def tested(ctx: RunContext) -> Any:
        await ctx.say("before")
        try:
            await ctx.gather(two(ctx, "bad", "never"), two(ctx, "a", "b"))
        except ToolFailed as error:
            caught = error.code
        rest = await ctx.gather(two(ctx, "c"), two(ctx, "bad"), return_errors=True)
        return [caught, rest[0], rest[1].code]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"]) == ("completed", ["bad_word", ["c"], "bad_word"])
        assert await bench.steps(run) == [
            ("1", "text", "finished"), ("2.1.1", "tool", "failed"), ("2.2.1", "tool", "finished"),
            ("2.2.2", "tool", "finished"), ("3.1.1", "tool", "finished"), ("3.2.1", "tool", "failed"),
        ]  # fmt: skip
    assert "never" not in asked


async def test_a_limit_bounds_how_many_branches_run_at_once() -> None:
    branches = Branches(Scope(), max_steps=100)
    branches.begin()
    running, most = 0, 0

    async def branch(number: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return branches.next_path()

    paths = await branches.gather([branch(n) for n in range(5)], limit=2, return_errors=False)
    assert paths == ["1.1.1", "1.2.1", "1.3.1", "1.4.1", "1.5.1"]
    assert most == 2
    assert branches.next_path() == "2"


async def test_nested_gathers_have_paths_of_their_own() -> None:
    branches = Branches(Scope(), max_steps=100)
    branches.begin()

    async def leaf() -> str:
        return branches.next_path()

    async def inner() -> list[str]:
        first = branches.next_path()
        return [first, *await branches.gather([leaf(), leaf()], limit=None, return_errors=False)]

    found = await branches.gather([leaf(), inner()], limit=None, return_errors=False)
    assert found == ["1.1.1", ["1.2.1", "1.2.2.1.1", "1.2.2.2.1"]]


async def test_the_agent_comes_apart_only_when_every_branch_is_parked_and_no_step_is_in_flight() -> None:
    branches = Branches(Scope(), max_steps=100)
    branches.begin()
    hold, order = asyncio.Event(), []

    async def parks() -> None:
        try:
            await branches.park(Parked(For.INPUT))
        finally:
            order.append("parked ends")

    async def works() -> None:
        with branches.step_in_flight():
            await hold.wait()
        order.append("step ends")
        await branches.park(Parked(For.TIMER))

    task = asyncio.ensure_future(branches.gather([parks(), works()], limit=None, return_errors=False))
    await asyncio.sleep(0.02)
    assert branches.unwound is None
    hold.set()
    with pytest.raises(Unwind):
        await task
    assert order == ["step ends", "parked ends"]
    assert {p.what for p in branches.unwound or []} == {For.INPUT, For.TIMER}
    with pytest.raises(Unwind):
        await branches.park(Parked(For.INPUT))


async def test_a_stop_reaches_parked_branches() -> None:
    scope = Scope()
    branches = Branches(scope, max_steps=100)
    branches.begin()

    async def busy() -> None:
        with branches.step_in_flight():
            await scope.wait_ended()
        raise ScopeCancelled(CancelReason.USER)

    task = asyncio.ensure_future(
        branches.gather([branches.park(Parked(For.INPUT)), busy()], limit=None, return_errors=False)
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scope.cancel(CancelReason.USER)
    branches.stop()
    with pytest.raises(ScopeCancelled):
        await task


async def test_too_many_steps_are_refused() -> None:
    branches = Branches(Scope(), max_steps=2)
    branches.begin()
    assert [branches.next_path(), branches.next_path()] == ["1", "2"]
    with pytest.raises(StepLimit):
        branches.next_path()


async def test_an_answer_lets_a_branch_go_on_while_its_sibling_still_runs(a_worker: OpenWorker) -> None:
    release = asyncio.Event()

    @tool(effect="read", name="held_read")
    async def held_read() -> str:
        """Wait for the test."""
        await release.wait()
        return "read"

    async def asks(ctx: RunContext) -> str:
        answer = await ctx.ask("Go?", schema=Answer)
        await ctx.tool(branch_word, word="after the answer")
        return str(answer.yes)

    async def tested(ctx: RunContext) -> Any:
        return await ctx.gather(asks(ctx), ctx.tool(held_read))

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "input.requested")
        question = (await bench.fetch("select id from runs_question where run_id = %(run)s", run=run.pk))[0]
        await bench.decide(
            waiting.answer(run_id=run.pk, question_id=question["id"], value={"yes": True}, by=run.user_id, by_name="o")
        )

        async def went_on() -> bool:
            return "after the answer" in asked

        await until(went_on)
        release.set()
        await asyncio.wait_for(working, 60)
        assert (await bench.row(run))["result"] == ["True", "read"]


@pytest.mark.parametrize(
    ("flying", "lives_on"),
    [((), False), ((True,), True), ((False,), False), ((True, False), False), ((True, True), True)],
    ids=["nothing", "a shell", "a model", "a shell and a model", "two shells"],
)
async def test_a_drain_leaves_at_once_only_what_all_lives_on(flying: tuple[bool, ...], lives_on: bool) -> None:
    branches = Branches(Scope(), max_steps=100)
    with contextlib.ExitStack() as steps:
        for one in flying:
            steps.enter_context(branches.step_in_flight(lives_on=one))
        assert branches.lives_on is lives_on
    assert not branches.lives_on
    with branches.step_in_flight(lives_on=True):  # what has ended is not counted any more
        assert branches.lives_on
