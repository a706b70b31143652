"""The eight races of a stop, by name, on real workers: nothing begins after it, and the receipt says what had begun.

Two actors in each: the worker, parked at a named seam (runs/failpoints.py), and who stops. After each the rows are
held against the invariants, which say that nothing began after the stop and that one terminal event ends the log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from runs import failpoints
from runs.agents import RunContext
from runs.decisions import claims, waiting
from runs.decisions.cancels import CancelAnswer, request_cancel
from runs.decisions.retry import Retried, Wish, retry
from runs.states import CancelReason, Status
from tests.explore.invariants import READ, check_rows
from tests.runs.execution.conftest import Bench, Made, OpenWorker, deltas, script
from tools import LookUp, LookUpCall, Outcome, Receipt, ToolCall, tool

landed: dict[str, str] = {}
sent: list[str] = []
gates: dict[str, asyncio.Event] = {}


class Answer(BaseModel):
    """What a person says."""

    yes: bool


async def look_it_up(call: LookUpCall) -> LookUp:
    word = landed.get(call.operation_key)
    return LookUp(found=word is not None, receipt=word and Receipt(Outcome.SUCCEEDED, value=word, external_id="x-1"))


@tool(effect="write", look_up=look_it_up)
async def invoice(call: ToolCall, word: str) -> Receipt:
    """Write at once, and answer when the test says so."""
    call.open()
    sent.append(word)
    landed[call.operation_key] = word
    gates["sent"].set()
    await gates["answer"].wait()
    return Receipt(Outcome.SUCCEEDED, value=word, proof="http 201", external_id="x-1")


@pytest.fixture(autouse=True)
def fresh_target() -> None:
    landed.clear()
    sent.clear()
    gates.update(sent=asyncio.Event(), answer=asyncio.Event())


async def stop(bench: Bench, run: Made) -> CancelAnswer:
    """Ask the run to stop, as a person does."""
    answer = await bench.decide(request_cancel(run_id=run.pk, reason=CancelReason.USER, by=run.user_id))
    assert answer is not None
    return answer


def stopping(bench: Bench, run: Made, answers: list[CancelAnswer]) -> Callable[[], Awaitable[None]]:
    """Make what happens at a seam: the stop commits there, once."""

    async def hook() -> None:
        if not answers:
            answers.append(await stop(bench, run))

    return hook


async def ended(bench: Bench, run: Made) -> dict[str, Any]:
    """Check every invariant, and return the run's row."""
    rows = (await bench.fetch(READ, run=run.pk))[0]
    check_rows(rows)
    assert rows["run"]["terminal_at"] is not None
    return await bench.row(run)


def outcomes(effects: list[dict[str, Any]]) -> list[str]:
    return [effect["outcome"] for effect in effects]


async def test_stop_while_queued(a_worker: OpenWorker) -> None:
    """Nobody has claimed it: it is cancelled at once, and no worker that is rung later begins it."""
    began: list[str] = []

    async def tested(ctx: RunContext) -> None:
        began.append("agent")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        assert (await stop(bench, run)).is_first
        assert (await ended(bench, run))["status"] == "cancelled"
        assert not await bench.advance(run)
        assert await bench.types(run) == ["run.created", "run.cancel_requested", "run.cancelled"]
    assert began == []


@pytest.mark.parametrize("seen", [1, 3])
async def test_stop_while_tokens_stream(a_worker: OpenWorker, seen: int) -> None:
    """The model has said so many words: they stay, as not final, and the next call never begins."""

    async def tested(ctx: RunContext) -> None:
        await ctx.model(script(key="eight", text="a b c d", hold_at=seen))
        await ctx.tool(invoice, word="never")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "text.delta", seen)
        assert outcomes((await stop(bench, run)).effects) == ["pending"]
        await asyncio.wait_for(working, 60)
        row = await ended(bench, run)
        events = await bench.events(run)
    assert (row["status"], outcomes(row["cancel_effects"])) == ("cancelled", ["abandoned"])
    assert deltas(events) == "".join(["a ", "b ", "c "][:seen])
    assert [e["data"]["final"] for e in events if e["type"] == "text.end"] == [False]
    assert sent == []


async def test_stop_after_the_models_output_before_the_dispatch(a_worker: OpenWorker) -> None:
    """The model has asked for a tool, and its permit was not asked for yet: the tool never runs."""
    answers: list[CancelAnswer] = []

    async def tested(ctx: RunContext) -> None:
        await ctx.model(script(text="send it"))
        await ctx.tool(invoice, word="never")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        with failpoints.armed("after_model_before_dispatch", stopping(bench, run, answers)):
            await asyncio.wait_for(bench.advance(run), 60)
        row = await ended(bench, run)
        assert await bench.operations(run) == []
    assert answers[0].is_first
    assert (row["status"], outcomes(row["cancel_effects"])) == ("cancelled", [])
    assert sent == []


async def test_stop_between_two_parallel_tools(a_worker: OpenWorker) -> None:
    """One is in flight, the other is about to ask: the first is named and brings its receipt, the second never runs."""
    answers: list[CancelAnswer] = []

    async def tested(ctx: RunContext) -> None:
        await ctx.gather(ctx.tool(invoice, word="first"), ctx.tool(invoice, word="second"))

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        passes: list[int] = []

        async def at_the_gate() -> None:
            passes.append(1)
            if len(passes) == 2:
                await gates["sent"].wait()
                answers.append(await stop(bench, run))
                gates["answer"].set()

        with failpoints.armed("before_dispatch", at_the_gate):
            await asyncio.wait_for(bench.advance(run), 60)
        row = await ended(bench, run)
    assert outcomes(answers[0].effects) == ["pending"]
    assert (row["status"], outcomes(row["cancel_effects"])) == ("cancelled", ["committed"])
    assert sent == ["first"]


@pytest.mark.parametrize(
    ("seam", "outcome", "effects"),
    [("after_dispatch_before_receipt", "not_started", 0), ("after_receipt_before_commit", "committed", 1)],
)
async def test_stop_after_the_dispatch_of_a_write(a_worker: OpenWorker, seam: str, outcome: str, effects: int) -> None:
    """With the permit in hand it is given back unused; with the target's answer in hand the receipt is stored."""
    answers: list[CancelAnswer] = []
    gates["answer"].set()

    async def tested(ctx: RunContext) -> None:
        await ctx.tool(invoice, word="w")
        await ctx.tool(invoice, word="never")

    async with a_worker() as bench:
        run = await bench.run_of(tested)

        async def stop_and_be_seen() -> None:
            await stopping(bench, run, answers)()
            await bench.until_event(run, "run.cancelling")

        with failpoints.armed(seam, stop_and_be_seen):
            await asyncio.wait_for(bench.advance(run), 60)
        row = await ended(bench, run)
    assert outcomes(answers[0].effects) == ["pending"]
    assert (row["status"], outcomes(row["cancel_effects"])) == ("cancelled", [outcome])
    assert len(landed) == effects


async def test_stop_at_a_process_crash(a_worker: OpenWorker) -> None:
    """The worker dies with a write in flight as the stop is asked for: the next one looks it up and runs no agent."""
    walks: list[str] = []

    async def tested(ctx: RunContext) -> None:
        walks.append("walk")
        await ctx.tool(invoice, word="w")

    async with a_worker("a") as bench, a_worker("b") as other:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        _, answer = await asyncio.gather(
            bench.decide(claims.take_from_dead(run_id=run.pk, worker="a")), stop(other, run)
        )
        assert outcomes(answer.effects) == ["pending"]
        await asyncio.wait_for(other.advance(run), 60)
        row = await ended(other, run)
        gates["answer"].set()
        await asyncio.wait_for(dying, 60)
        assert await ended(other, run) == row
    assert (row["status"], outcomes(row["cancel_effects"])) == ("cancelled", ["committed"])
    assert (walks, sent, len(landed)) == (["walk"], ["w"], 1)


async def test_stop_repeated(a_worker: OpenWorker) -> None:
    """Eight at once, and once more after the end: one request, one clean-up, one receipt, one wish in the outbox."""
    cleaned: list[str] = []

    async def tested(ctx: RunContext) -> None:
        try:
            await ctx.model(script(key="again", text="a b c", hold_at=1))
        finally:
            cleaned.append("agent")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        idle = await bench.run_of(tested)
        await bench.decide(claims.claim(run_id=idle.pk, worker="gone", lease_seconds=-1.0))
        for each in (run, idle):
            working = bench.advancing(run) if each is run else None
            if working:
                await bench.until_event(run, "text.delta")
            answers = await asyncio.gather(*(stop(bench, each) for _ in range(8)))
            assert sum(answer.is_first for answer in answers) == 1
            if working:
                await asyncio.wait_for(working, 60)
            row = await ended(bench, each)
            late = await stop(bench, each)
            assert (late.is_first, late.too_late) == (False, False)
            assert await bench.row(each) == row
            types = await bench.types(each)
            assert [types.count(t) for t in ("run.cancel_requested", "run.cancelled")] == [1, 1]
            assert await bench.fetch("select 1 from runs_outboxrow where run_id = %(run)s", run=each.pk) == []
    assert cleaned == ["agent"]


async def test_a_resume_attempted_after_a_stop(a_worker: OpenWorker) -> None:
    """An answer, a timeout, a bell and a worker come after the stop of a waiting run: only a new attempt goes on."""

    async def tested(ctx: RunContext) -> str:
        return str((await ctx.ask("Go on?", schema=Answer)).yes)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        assert (await bench.row(run))["status"] == "waiting"
        question = (await bench.fetch("select id from runs_question where run_id = %(run)s", run=run.pk))[0]["id"]
        await stop(bench, run)
        row = await ended(bench, run)
        late = await bench.decide(
            waiting.answer(run_id=run.pk, question_id=question, value={"yes": True}, by=run.user_id, by_name="x")
        )
        assert (late.won, late.state) == (False, "shut")
        assert not await bench.decide(waiting.expire_question(run_id=run.pk, question_id=question))
        assert not await bench.decide(waiting.fire_timer(run_id=run.pk))
        claim = claims.claim(run_id=run.pk, worker="b", lease_seconds=60.0)
        assert await bench.decide(claim) == claims.NotClaimable("cancelled")
        assert not await bench.advance(run)
        assert await ended(bench, run) == row
        again = await bench.decide(retry(Wish(run_id=run.pk, user_id=run.user_id, user_name="x")))
        assert isinstance(again, Retried)
        await bench.advance(run)
        assert (await bench.row(run))["status"] == Status.WAITING
        assert (await bench.types(run))[-1] == "run.cancelled"  # the stream of the stopped attempt stays ended
