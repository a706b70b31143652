"""Advance: a run from its claim to its end, and on another worker after a death."""

import asyncio
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from pydantic import BaseModel

from runs.agents import InputTimeout, ModelFailed, RunContext, ToolFailed
from runs.conf import limits
from runs.database import conninfo
from runs.decisions import claims, waiting
from runs.execution import walk as walking
from tests.runs.execution.conftest import Bench, Made, OpenWorker, deltas, script, until
from tools import ToolError, tool

seen: list[str] = []


class Answer(BaseModel):
    """What a person says."""

    yes: bool


@tool(effect="read")
async def noted(word: str) -> str:
    """Note that the call was made."""
    seen.append(word)
    return word.upper()


@tool(effect="read")
async def refusing(word: str) -> str:
    """Refuse."""
    raise ToolError(f"not {word}", code="no_such_word")


async def free(bench: Bench, run: Made, worker: str) -> None:
    """See the worker's exit, as the parent of the workers does."""
    await bench.decide(claims.mark_holder_gone(worker=worker, proof={"exit": 0}))
    assert await bench.decide(claims.take_from_dead(run_id=run.pk, worker=worker))


async def test_a_run_is_carried_from_its_claim_to_its_result(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        reply = await ctx.model(script(text="one two three"))
        await ctx.say("said", label="note")
        return reply.text

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        assert await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"], row["open_ops"]) == ("completed", "one two three", 0)
        events = await bench.events(run)
    assert deltas(events) == "one two threesaid"
    assert [e["type"] for e in events if not e["type"].startswith(("text.", "usage"))] == [
        "run.created", "claim.started", "run.started", "step.started", "model.started", "model.finished",
        "step.finished", "step.started", "step.finished", "run.completed",
    ]  # fmt: skip


async def test_a_run_that_is_claimed_elsewhere_is_left_alone(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        raise AssertionError("must not start")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.decide(claims.claim(run_id=run.pk, worker="other", lease_seconds=60))
        assert not await bench.advance(run)
        assert (await bench.row(run))["lease_owner"] == "other"


async def test_errors_of_steps_fail_the_run_with_their_code(a_worker: OpenWorker) -> None:
    async def no_model(ctx: RunContext) -> None:
        await ctx.model(script(error="auth"))

    async def no_tool(ctx: RunContext) -> None:
        await ctx.tool(refusing, word="x")

    async def bug(ctx: RunContext) -> None:
        raise KeyError("k")

    async def wrong_result(ctx: RunContext) -> int:
        return "seven"  # type: ignore[return-value]

    async with a_worker() as bench:
        for fn, code in ((no_model, "model_auth"), (no_tool, "no_such_word"), (bug, "agent_error"),
                         (wrong_result, "result_invalid")):  # fmt: skip
            run = await bench.run_of(fn)
            await bench.advance(run)
            row = await bench.row(run)
            assert (row["status"], row["error_code"], row["open_ops"]) == ("failed", code, 0)


async def test_an_agent_may_catch_what_a_step_could_not_do(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> list[str]:
        caught = []
        for ask in (ctx.model(script(error="overloaded")), ctx.tool(refusing, word="a"), ctx.tool("nobody")):
            try:
                await ask
            except (ModelFailed, ToolFailed) as error:
                caught.append(error.code)
        return caught

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        assert (await bench.row(run))["result"] == ["overloaded", "no_such_word", "unknown_tool"]


async def test_after_a_death_finished_steps_are_not_done_again(a_worker: OpenWorker) -> None:
    """Worker a dies in its second step; worker b walks the first from the database and does the second."""
    seen.clear()
    hold = asyncio.Event()

    async def tested(ctx: RunContext) -> list[Any]:
        first = await ctx.tool(noted, word="first")
        if seen.count("died") == 0:
            seen.append("died")
            await hold.wait()
        return [first, await ctx.tool(noted, word="second")]

    async with a_worker("a") as bench, a_worker("b") as other:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await bench.until_event(run, "tool.result")
        await free(bench, run, "a")
        assert await other.advance(run)
        assert (await other.row(run))["result"] == ["FIRST", "SECOND"]
        await asyncio.wait_for(dying, 60)  # the keeper's next renewal says LOST
    assert seen == ["first", "died", "second"]


async def test_the_text_of_a_model_call_that_died_is_superseded(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        return (await ctx.model(script(key="death", text="a b c", hold_at=2))).text

    async with a_worker("a") as bench, a_worker("b") as other:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await bench.until_event(run, "text.delta", 2)
        await free(bench, run, "a")
        await asyncio.wait_for(dying, 60)
        going_on = other.advancing(run)
        await other.until_event(run, "text.delta", 4)
        (bench.worker.hands.workspaces.parent / "death.release").touch()
        await going_on
        ends = [e["data"] for e in await other.events(run) if e["type"] == "text.end"]
        assert [(e["final"], e.get("reason")) for e in ends] == [(False, "superseded"), (True, None)]
        assert (await other.row(run))["result"] == "a b c"


async def test_another_question_on_the_second_walk_fails_the_run(a_worker: OpenWorker) -> None:
    walks: list[int] = []

    async def tested(ctx: RunContext) -> None:
        walks.append(1)
        await ctx.say(f"walk {len(walks)}")
        await ctx.ask("Go on?", schema=Answer)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        question = await bench.fetch("select id from runs_question where run_id = %(run)s", run=run.pk)
        value = {"yes": True}
        closed = await bench.decide(
            waiting.answer(run_id=run.pk, question_id=question[0]["id"], value=value, by=run.user_id, by_name="o")
        )
        assert closed.won
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["error_code"]) == ("failed", "step_mismatch")
        assert "Step 1 was text text before" in row["error_message"]


async def test_an_agent_that_loops_for_ever_ends(a_worker: OpenWorker, monkeypatch: Any) -> None:
    async def tested(ctx: RunContext) -> None:
        while True:
            await ctx.say("again")

    monkeypatch.setenv("OUTLIVE_MAX_STEPS", "5")
    limits.cache_clear()
    try:
        async with a_worker() as bench:
            run = await bench.run_of(tested)
            await bench.advance(run)
            row = await bench.row(run)
    finally:
        monkeypatch.undo()
        limits.cache_clear()
    assert (row["status"], row["error_code"]) == ("failed", "step_limit")


async def test_a_question_frees_the_worker_and_its_answer_comes_back(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> bool:
        return (await ctx.ask("Send it?", schema=Answer)).yes

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["waiting_for"], row["lease_owner"]) == ("waiting", "input", None)
        question = (await bench.fetch("select * from runs_question where run_id = %(run)s", run=run.pk))[0]
        await bench.decide(
            waiting.answer(run_id=run.pk, question_id=question["id"], value={"yes": True}, by=run.user_id, by_name="o")
        )
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"]) == ("completed", True)


async def test_a_question_with_a_schema_that_is_no_model_says_what_it_takes(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        return str(await ctx.ask("Which?", schema=str))  # type: ignore[arg-type]

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
    said = "TypeError: ctx.ask(schema=...) takes a pydantic model or a JSON schema, not str."
    assert (row["status"], row["error_message"]) == ("failed", said)


async def test_an_answer_between_the_look_and_the_wait_is_not_lost(a_worker: OpenWorker, monkeypatch: Any) -> None:
    """The person answers after the agent was taken apart, before the wait commits (RULES H11)."""

    async def tested(ctx: RunContext) -> bool:
        return (await ctx.ask("Send it?", schema=Answer)).yes

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        real = walking.Walk._put_away

        async def answered_first(self: Any, unwound: Any) -> Any:
            monkeypatch.undo()
            question = (await bench.fetch("select id from runs_question where run_id = %(run)s", run=run.pk))[0]
            await bench.decide(
                waiting.answer(
                    run_id=run.pk, question_id=question["id"], value={"yes": False}, by=run.user_id, by_name="o"
                )
            )
            return await real(self, unwound)

        monkeypatch.setattr(walking.Walk, "_put_away", answered_first)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"]) == ("completed", False)


async def test_an_unanswered_question_raises_in_the_agent(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        try:
            await ctx.ask("Anybody?", schema=Answer, timeout_seconds=0.01)
        except InputTimeout as error:
            return error.code
        return "answered"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        question = (await bench.fetch("select id from runs_question where run_id = %(run)s", run=run.pk))[0]
        await until(lambda: bench.decide(waiting.expire_question(run_id=run.pk, question_id=question["id"])))
        await bench.advance(run)
        assert (await bench.row(run))["result"] == "input_timeout"


async def test_a_long_sleep_frees_the_worker_and_a_short_one_does_not(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        await ctx.sleep(0.01)
        await ctx.sleep(60)
        return "awake"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["waiting_for"]) == ("waiting", "timer")
        assert not await bench.decide(waiting.fire_timer(run_id=run.pk))
        await bench.fetch("update runs_run set wake_at = now()")
        await bench.fetch(
            "update runs_step set result = '{\"wake_at\": \"2020-01-01T00:00:00Z\"}' where state = 'open'"
        )
        assert await bench.decide(waiting.fire_timer(run_id=run.pk))
        await bench.advance(run)
        assert (await bench.row(run))["result"] == "awake"
        assert [s[2] for s in await bench.steps(run)] == ["finished", "finished"]


async def test_b34_a_worker_whose_connections_all_broke_takes_the_next_run(a_worker: OpenWorker) -> None:
    """A restart of the database breaks every connection that waits in the pool; not one run may fail for it."""

    async def tested(ctx: RunContext) -> str:
        await ctx.say("one")
        return "done"

    async with a_worker(dsn=make_conninfo(conninfo(), application_name="b34")) as bench:
        runs = [await bench.run_of(tested) for _ in range(3)]
        async with asyncio.TaskGroup() as group:  # so that the pool has several
            for _ in range(6):
                group.create_task(bench.fetch("select pg_sleep(0.1)"))
        async with await psycopg.AsyncConnection.connect(conninfo(), autocommit=True) as other:
            ended = await other.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'b34'"
            )
            assert len(await ended.fetchall()) >= 3
        for run in runs:
            assert await bench.advance(run)
            assert (await bench.row(run))["status"] == "completed"
