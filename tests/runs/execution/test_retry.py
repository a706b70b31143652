"""A run that is tried again: what the new attempt takes over, what it does anew, and what it never does twice."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from runs.agents import ModelFailed, RunContext, ToolFailed
from runs.decisions import claims, operations, retry, waiting
from runs.fold import fold_all
from runs.states import Reuse
from tests.runs.execution.conftest import Bench, Made, OpenWorker, deltas, script
from tools import OutcomeUnknown, ToolCall, tool

effects: dict[str, int] = {}
read: list[str] = []
fails: set[str] = set()


@pytest.fixture(autouse=True)
def fresh_target() -> None:
    effects.clear()
    read.clear()
    fails.clear()


@tool(effect="write", look_up=None)
async def counted_write(call: ToolCall, word: str) -> str:
    """Count each effect by its operation key."""
    call.open()
    if word in fails:
        raise ToolFailed("counted_write", "refused", "not now")
    effects[call.operation_key] = effects.get(call.operation_key, 0) + 1
    if word == "lost":
        raise OutcomeUnknown("the connection broke")
    return f"{word} {len(effects)}"


@tool(effect="read")
async def counted_read(word: str) -> str:
    """Read."""
    read.append(word)
    if word in fails:
        raise ToolFailed("counted_read", "refused", "not now")
    return word


class Answer(BaseModel):
    yes: bool


async def again(bench: Bench, run: Made, **more: Any) -> Made:
    """Ask for a new attempt, and give the run with its new stream."""
    wish = retry.Wish(**({"run_id": run.pk, "user_id": run.user_id, "user_name": "owner"} | more))
    made = await bench.decide(retry.retry(wish))
    assert isinstance(made, retry.Retried), made
    return replace(run, stream_id=made.stream_id)


async def view_of(bench: Bench, run: Made) -> dict[str, Any]:
    return fold_all([{"seq": n, **event} for n, event in enumerate(await bench.events(run), 1)])


async def test_a_retry_goes_on_where_the_attempt_before_failed(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        reply = await ctx.model(script(text="Hello."), label="Greeting")
        sent = await ctx.tool(counted_write, word="w")
        await ctx.say("now the read")
        word = await ctx.tool(counted_read, word="r")
        return f"{reply.text} {sent} {word} {ctx.attempt}"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        fails.add("r")
        await bench.advance(run)
        assert (await bench.row(run))["status"] == "failed"
        fails.clear()
        second = await again(bench, run)
        await bench.advance(second)
        row = await bench.row(second)
        assert (row["status"], row["result"]) == ("completed", "Hello. w 1 r 2")
        assert (list(effects.values()), read) == ([1], ["r", "r"])
        assert deltas(await bench.events(second)) == "Hello.now the read"
        view = await view_of(bench, second)
        assert [(s["path"], s["state"], s["reused_from"]) for s in view["steps"]] == [
            ("1", "finished", 1), ("2", "finished", 1), ("3", "finished", 1), ("4", "finished", None),
        ]  # fmt: skip
        assert [m["state"] for m in view["messages"]] == ["final", "final"]
        assert view["messages"][0]["label"] == "Greeting"
        assert view["steps"][1]["tool"]["value"] == "w 1"
        assert (view["retry"]["retry_of"], view["retry"]["by"]) == (1, "owner")
        (operation,) = await bench.operations(run)
        step = (await bench.fetch("select stream_id from runs_step where id = %(id)s", id=operation["step_id"]))[0]
        assert step["stream_id"] == second.stream_id


async def test_everything_anew_repeats_reads_and_no_write(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> list[Any]:
        return [await ctx.tool(counted_read, word="r"), await ctx.tool(counted_write, word="w")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        second = await again(bench, run, reuse=Reuse.NOTHING)
        await bench.advance(second)
        assert (await bench.row(run))["result"] == ["r", "w 1"]
        assert (read, list(effects.values())) == (["r", "r"], [1])
        view = await view_of(bench, second)
        assert [s["reused_from"] for s in view["steps"]] == [None, None]


async def test_do_it_again_makes_a_second_effect_under_a_new_key(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> list[Any]:
        before = await ctx.tool(counted_read, word="r")
        sent = await ctx.tool(counted_write, word="w")
        return [before, sent, await ctx.tool(counted_read, word=f"after {sent}")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        (first,) = await bench.operations(run)
        second = await again(bench, run, redo=[first["id"]])
        await bench.advance(second)
        assert effects == {first["key"]: 1, f"{first['key']}#redo-1": 1}
        assert read == ["r", "after w 1", "after w 2"]  # what comes before it is taken over
        third = await again(bench, run)  # without the tick the newest receipt counts
        await bench.advance(third)
        assert (await bench.row(run))["result"] == ["r", "w 2", "after w 2"]
        assert len(effects) == 2


async def test_a_verdict_is_what_the_new_attempt_goes_on_with(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return [await ctx.tool(counted_write, word="lost"), "went on"]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        assert (await bench.row(run))["status"] == "needs_reconciliation"
        (operation,) = await bench.operations(run)
        settled = operations.settle(
            operation_id=operation["id"], version=operation["version"], happened=True, source="look_up",
            detail={"value": "seen"},
        )  # fmt: skip
        await bench.decide(settled)
        second = await again(bench, run)
        await bench.advance(second)
        row = await bench.row(run)
        assert (row["status"], row["result"], list(effects.values())) == ("completed", ["seen", "went on"], [1])


async def test_a_receipt_against_the_verdict_ends_the_new_attempt_before_the_call(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(counted_write, word="lost")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        (operation,) = await bench.operations(run)
        ids = {"operation_id": operation["id"], "happened": False}
        verdict = operations.settle(**ids, version=operation["version"], source="verdict", detail={}, override=True)
        assert isinstance(await bench.decide(verdict), operations.Settled)
        second = await again(bench, run)
        late = {"operation_id": operation["id"], "fence": operation["fence"], "happened": True}
        await bench.decide(operations.record_evidence(**late, kind="receipt", detail={}))
        await bench.advance(second)
        row = await bench.row(run)
        assert (row["status"], row["error_code"]) == ("failed", "operation_contradicted")
        assert list(effects.values()) == [1]


async def test_an_answer_is_not_asked_for_twice(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        answer = await ctx.ask("Send it?", schema=Answer)
        return [answer.yes, await ctx.tool(counted_read, word="r")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        fails.add("r")
        await bench.advance(run)
        (question,) = await bench.fetch("select id from runs_question")
        await bench.decide(
            waiting.answer(
                run_id=run.pk, question_id=question["id"], value={"yes": True}, by=run.user_id, by_name="owner"
            )
        )
        await bench.advance(run)
        for number in (2, 3):
            run = await again(bench, run)
            if number == 3:
                fails.clear()
            await bench.advance(run)
            shown = (await view_of(bench, run))["questions"]
            assert [(q["prompt"], q["state"], q["value"]) for q in shown] == [("Send it?", "answered", {"yes": True})]
        assert (await bench.row(run))["result"] == [True, "r"]


async def test_a_new_claim_of_a_retry_goes_on_with_what_it_took_over(a_worker: OpenWorker) -> None:
    """The worker dies in attempt 2, after it has taken two steps over and has done one anew."""
    calls: list[str] = []
    gate = asyncio.Event()

    async def tested(ctx: RunContext) -> Any:
        words = [await ctx.tool(counted_read, word=word) for word in ("a", "b")]
        words.append(await ctx.tool(counted_read, word="c"))
        calls.append("c is done")
        if ctx.attempt == 2 and calls.count("c is done") == 1:
            await gate.wait()
        return [*words, await ctx.tool(counted_read, word="d")]

    async with a_worker() as bench, a_worker("worker-b") as other:
        run = await bench.run_of(tested)
        fails.add("c")
        await bench.advance(run)
        fails.clear()
        second = await again(bench, run)
        frozen = bench.advancing(second)
        await bench.until_event(second, "step.finished", 3)
        assert await bench.decide(claims.take_from_dead(run_id=run.pk, worker="worker-a"))
        await other.advance(second)
        gate.set()
        await frozen
        assert (await bench.row(run))["result"] == ["a", "b", "c", "d"]
        assert read == ["a", "b", "c", "c", "d"]


async def test_an_attempt_that_reuses_nothing_hides_what_was_before_it(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        word = await ctx.tool(counted_read, word="a")
        if ctx.attempt == 2:
            raise ModelFailed("unavailable", "gone", retryable=True)
        return [word, await ctx.tool(counted_read, word="b")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        for reuse in (Reuse.NOTHING, Reuse.FINISHED):
            run = await again(bench, run, reuse=reuse)
            await bench.advance(run)
        # Attempt 3 takes a from attempt 2; b of attempt 1 lies behind an attempt that reused nothing.
        assert read == ["a", "b", "a", "b"]
        assert [s["reused_from"] for s in (await view_of(bench, run))["steps"]] == [2, None]


async def test_a_retry_of_a_retry_takes_over_what_that_one_never_reached(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        word = await ctx.tool(counted_read, word="a")
        if ctx.attempt == 2:
            raise ModelFailed("unavailable", "gone", retryable=True)
        return [word, await ctx.tool(counted_read, word="b")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        for _ in range(2):
            run = await again(bench, run)
            await bench.advance(run)
        assert (await bench.row(run))["result"] == ["a", "b"]
        assert read == ["a", "b"]
        assert [s["reused_from"] for s in (await view_of(bench, run))["steps"]] == [2, 1]


async def test_files_of_the_attempt_before_stay_in_the_view(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        return await ctx.artifact("a.txt", "hello")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        second = await again(bench, run)
        assert [(a["name"], a["bytes"]) for a in (await view_of(bench, second))["artifacts"]] == [("a.txt", 5)]
        await bench.advance(second)
        assert [a["name"] for a in (await view_of(bench, second))["artifacts"]] == ["a.txt"]


async def test_a_changed_agent_does_the_rest_anew_instead_of_failing(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        word = "b" if ctx.attempt == 1 else "c"
        return [await ctx.tool(counted_read, word=w) for w in ("a", word, "z")]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        second = await again(bench, run)
        await bench.advance(second)
        assert ((await bench.row(run))["result"], read) == (["a", "c", "z"], ["a", "b", "z", "c", "z"])
