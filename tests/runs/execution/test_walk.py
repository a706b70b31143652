"""A walk that is put away: draining workers, and agents that swallow what takes them apart."""

import asyncio
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from runs import failpoints
from runs.agents import RunContext
from runs.execution import model_step
from tests.runs.execution.conftest import OpenWorker, script
from tools import ToolCall, tool
from tools.models.protocol import ModelRequest
from tools.scope import CancelReason

gates: dict[str, asyncio.Event] = {}


class Answer(BaseModel):
    """What a person says."""

    yes: bool


@pytest.fixture(autouse=True)
def fresh_gates() -> None:
    gates.update(begun=asyncio.Event(), go_on=asyncio.Event())


@tool(effect="read")
async def gated_read(word: str) -> str:
    """Wait for the test, then return the word."""
    gates["begun"].set()
    await gates["go_on"].wait()
    return word


@tool(effect="write", look_up=None)
async def never_sent(call: ToolCall) -> None:
    """Must not be called."""
    call.open()
    raise AssertionError("the permit was used")


async def test_a_draining_worker_lets_a_run_go_at_its_next_step(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return [await ctx.tool(gated_read, word="a"), await ctx.tool(gated_read, word="b")]

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await gates["begun"].wait()
        bench.worker.hands.draining.set()
        gates["go_on"].set()
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert (row["status"], row["lease_owner"], row["cancel_reason"]) == ("running", None, None)
        assert await bench.steps(run) == [("1", "tool", "finished")]
        await next_one.advance(run)
        assert (await next_one.row(run))["result"] == ["a", "b"]


async def test_after_the_drain_time_a_run_goes_in_mid_step(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return (await ctx.model(script(key="drain", text="a b c", hold_at=2))).text

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "text.delta", 2)
        bench.worker.hands.draining.set()
        bench.worker.hands.leaving.set()
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert (row["status"], row["lease_owner"], row["cancel_reason"]) == ("running", None, None)
        (bench.worker.hands.workspaces.parent / "drain.release").touch()
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["result"], row["open_ops"]) == ("completed", "a b c", 0)


@tool(effect="write", look_up=None)
async def noted_write(call: ToolCall) -> str:
    """Be sent."""
    call.open()
    return "sent"


async def test_the_end_of_a_drain_between_a_permit_and_its_call_fails_nobody(a_worker: OpenWorker) -> None:
    """Nothing was sent, which is known: the next claim dispatches the call anew."""

    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(noted_write)

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)

        async def leave() -> None:
            bench.worker.hands.draining.set()
            bench.worker.hands.leaving.set()
            while any(held.scope.reason is None for held in bench.worker.keeper.held):  # noqa: ASYNC110
                await asyncio.sleep(0)

        with failpoints.armed("after_dispatch_before_receipt", leave):
            await asyncio.wait_for(bench.advance(run), 60)
        row = await bench.row(run)
        assert (row["status"], row["lease_owner"], row["open_ops"]) == ("running", None, 0)
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["result"]) == ("completed", "sent"), row["error_message"]
        assert [one["state"] for one in await next_one.operations(run)] == ["succeeded"]
        assert (await next_one.types(run)).count("tool.dispatched") == 2


async def test_nor_does_it_between_a_permit_and_a_model_call(
    a_worker: OpenWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tested(ctx: RunContext) -> Any:
        return (await ctx.model(script(key="left", text="a b"))).text

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)

        def leave(**fields: Any) -> ModelRequest:
            bench.worker.hands.draining.set()
            bench.worker.hands.leaving.set()
            for held in bench.worker.keeper.held:
                held.scope.cancel(CancelReason.DRAIN)
            return ModelRequest(**fields)

        with monkeypatch.context() as patch:
            patch.setattr(model_step, "ModelRequest", leave)
            await asyncio.wait_for(bench.advance(run), 60)
        row = await bench.row(run)
        assert (row["status"], row["lease_owner"]) == ("running", None)
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["result"]) == ("completed", "a b"), row["error_message"]


async def test_an_agent_that_swallows_its_unwinding_still_waits(
    a_worker: OpenWorker, caplog: pytest.LogCaptureFixture
) -> None:
    async def tested(ctx: RunContext) -> str:
        try:
            await ctx.ask("Go?", schema=Answer)
        except BaseException:
            return "swallowed"
        return "answered"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        assert (await bench.row(run))["status"] == "waiting"
    named = [r for r in caplog.records if r.message == "agent.swallowed_unwind"]
    assert len(named) == 1
    assert "test_walk.py" in named[0].at


async def test_a_call_that_an_agent_stops_awaiting_is_closed(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        for ask, sign in (
            (ctx.tool(gated_read, word="a"), "tool.started"),
            (ctx.model(script(key="cut", text="a b", hold_at=1)), "text.delta"),
        ):
            waiting = asyncio.ensure_future(ask)
            await bench.until_event(run, sign)
            waiting.cancel()
            await asyncio.wait({waiting})
        return "went on"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"], row["open_ops"]) == ("completed", "went on", 0)
        assert [s[2] for s in await bench.steps(run)] == ["abandoned", "abandoned"]


async def test_a_permit_that_came_too_late_for_its_agent_is_given_back(a_worker: OpenWorker, dsn: str) -> None:
    """The agent stops waiting while the dispatch itself is under way: it commits, and nothing is sent."""

    async def tested(ctx: RunContext) -> str:
        waiting = asyncio.ensure_future(ctx.tool(never_sent))
        await gates["begun"].wait()
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait({waiting})
        gates["go_on"].set()
        return "went on"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        rival = await psycopg.AsyncConnection.connect(dsn)

        async def lock_the_row() -> None:
            await rival.execute("select 1 from runs_run where id = %s for update", [run.pk])
            gates["begun"].set()

        with failpoints.armed("before_dispatch", lock_the_row):
            working = bench.advancing(run)
            await gates["go_on"].wait()
            await rival.close()
            await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert (row["status"], row["result"], row["open_ops"]) == ("completed", "went on", 0)
        assert [o["state"] for o in await bench.operations(run)] == ["refuted"]


async def test_files_titles_and_texts_are_left_once(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        await ctx.set_title("A title")
        first = await ctx.artifact("report.md", "one")
        await ctx.say("said")
        second = await ctx.artifact("report.md", "two", content_type="text/markdown")
        await ctx.ask("Go?", schema=Answer)
        return [first, second]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        await bench.fetch("update runs_run set status = 'running', waiting_for = null")
        await bench.advance(run)
        files = await bench.fetch("select name, content, content_type from runs_artifact")
        assert [(f["name"], bytes(f["content"]), f["content_type"]) for f in files] == [
            ("report.md", b"two", "text/markdown")
        ]
        kinds = await bench.types(run)
        assert (kinds.count("run.titled"), kinds.count("artifact.created"), kinds.count("text.delta")) == (1, 2, 1)
        assert (await bench.row(run))["title"] == "A title"
