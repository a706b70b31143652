"""Tool steps: receipts, unknown outcomes, and what a new claim makes of an old dispatch."""

import asyncio
from typing import Any

import pytest

from runs.agents import RunContext, ToolFailed
from runs.decisions import cancels, claims
from runs.states import CancelReason
from tests.runs.execution.conftest import Bench, Made, OpenWorker, until
from tools import LookUp, LookUpCall, Outcome, OutcomeUnknown, Receipt, ToolCall, tool
from tools.builtin import run_command

landed: dict[str, str] = {}
asked: list[str] = []
sent: list[str] = []
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def fresh_target() -> None:
    landed.clear()
    asked.clear()
    sent.clear()
    gates.update(sent=asyncio.Event(), hold=asyncio.Event())


async def look_it_up(call: LookUpCall) -> LookUp:
    asked.append(call.operation_key)
    if (word := landed.get(call.operation_key)) is None:
        return LookUp(found=False, raw={"count": 0})
    return LookUp(found=True, receipt=Receipt(Outcome.SUCCEEDED, value=word, proof="look-up", external_id="x-1"))


@tool(effect="write", look_up=look_it_up, timeout_seconds=5, request_timeout_seconds=0.2)
async def lossy_write(call: ToolCall, word: str, lands: bool) -> Receipt:
    """Write, and lose the answer."""
    call.open()
    sent.append(word)
    if lands:
        landed[call.operation_key] = word
    gates["sent"].set()
    if word == "hold":
        await gates["hold"].wait()
    raise OutcomeUnknown("the connection broke")


@tool(effect="write", look_up=None)
async def blind_write(call: ToolCall, word: str) -> Receipt:
    """Write where nobody can look, and lose the answer."""
    call.open()
    sent.append(word)
    raise OutcomeUnknown("the connection broke")


@tool(effect="write", look_up=None)
async def write_that_minds_a_stop(call: ToolCall, is_sent: bool) -> str:
    """Write, and stop waiting for the answer when the run is stopped."""
    if is_sent:
        call.open()
    gates["sent"].set()
    await call.scope.bound(gates["hold"].wait())
    return "answered"


@tool(effect="idempotent")
async def keyed_write(call: ToolCall, word: str) -> str:
    """Write under our key."""
    call.open()
    sent.append(call.operation_key)
    gates["sent"].set()
    if len(sent) == 1:
        await gates["hold"].wait()
    return word


@tool(effect="read")
async def read_word(word: str) -> str:
    """Read."""
    sent.append(word)
    return word


async def die(bench: Bench, run: Made, worker: str) -> None:
    """See the worker's exit as its parent does (the process lives on as a frozen one would)."""
    await bench.decide(claims.mark_holder_gone(worker=worker, proof={"exit": 0}))
    assert await bench.decide(claims.take_from_dead(run_id=run.pk, worker=worker))


async def test_a_lost_answer_is_looked_up_and_the_agent_goes_on(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(lossy_write, word="w", lands=True)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"], row["open_ops"], row["unknown_ops"]) == ("completed", "w", 0, 0)
        operation = (await bench.operations(run))[0]
        assert (operation["state"], operation["receipt"]["proof"]) == ("succeeded", "look-up")
        kept = await bench.fetch("select kind, happened from runs_evidence")
        assert kept == [{"kind": "look_up", "happened": True}]


async def test_a_write_that_is_not_there_counts_only_after_the_horizon(a_worker: OpenWorker) -> None:
    """The permit lasts 2 s and the request 0.2 s: before that a look-up that finds nothing proves nothing."""

    async def tested(ctx: RunContext) -> str:
        try:
            await ctx.tool(lossy_write, word="w", lands=False)
        except ToolFailed as error:
            return f"{error.code} {error.retryable}"
        return "succeeded"

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        began = asyncio.get_running_loop().time()
        await bench.advance(run)
        assert asyncio.get_running_loop().time() - began >= 2.2
        assert (await bench.row(run))["result"] == "not_happened True"
        assert (await bench.operations(run))[0]["state"] == "refuted"
        assert len(asked) >= 3


async def test_what_nobody_can_tell_parks_the_run(a_worker: OpenWorker) -> None:
    after: list[str] = []

    async def tested(ctx: RunContext) -> None:
        try:
            await ctx.tool(blind_write, word="w")
        except Exception:
            after.append("the agent must not see it")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["unknown_ops"], row["has_result"]) == ("needs_reconciliation", 1, False)
        assert (await bench.types(run))[-3:] == ["tool.unknown", "step.finished", "run.needs_reconciliation"]
    assert after == []


async def test_one_unknown_operation_lets_no_sibling_begin_and_all_are_settled_first(a_worker: OpenWorker) -> None:
    """RULES H9: a branch is unknown, its sibling is in flight and brings its receipt, then nothing more begins."""

    async def sibling(ctx: RunContext) -> None:
        await ctx.tool(keyed_write, word="in flight")
        await ctx.tool(read_word, word="never")

    async def other(ctx: RunContext) -> None:
        await gates["sent"].wait()
        await ctx.tool(blind_write, word="blind")

    async def tested(ctx: RunContext) -> None:
        await ctx.gather(sibling(ctx), other(ctx))

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "tool.unknown")
        gates["hold"].set()
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert (row["status"], row["open_ops"], row["unknown_ops"]) == ("needs_reconciliation", 0, 1)
        assert sorted(o["state"] for o in await bench.operations(run)) == ["succeeded", "unknown"]
    assert "never" not in sent


async def test_a_new_claim_looks_up_the_write_of_a_dead_one(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(lossy_write, word="hold", lands=True)

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        await die(bench, run, "a")
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["result"]) == ("completed", "hold")
        gates["hold"].set()
        await asyncio.wait_for(dying, 60)
    assert sent == ["hold"]


async def test_a_new_claim_does_a_write_that_never_arrived(a_worker: OpenWorker) -> None:
    """The holder's exit was seen and the horizon has passed: it did not happen, so the step is done now, once."""

    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(lossy_write, word="hold", lands=False)

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        await die(bench, run, "a")
        working = next_one.advancing(run)
        await until(lambda: _was_sent_again())
        landed[asked[0]] = "hold"
        gates["hold"].set()
        await asyncio.wait_for(working, 60)
        await asyncio.wait_for(dying, 60)
        row = await next_one.row(run)
        assert (row["status"], row["result"]) == ("completed", "hold")
    assert sent == ["hold", "hold"]


async def _was_sent_again() -> bool:
    return len(sent) == 2


async def test_a_new_claim_repeats_an_idempotent_call_under_the_same_key(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(keyed_write, word="k")

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        await die(bench, run, "a")
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["result"], row["open_ops"]) == ("completed", "k", 0)
        gates["hold"].set()
        await asyncio.wait_for(dying, 60)
    assert len(sent) == 2
    assert sent[0] == sent[1]


async def test_a_new_claim_parks_on_a_write_that_nobody_can_look_up(a_worker: OpenWorker) -> None:
    @tool(effect="write", look_up=None, name="held_blind_write")
    async def held(call: ToolCall) -> None:
        """Write and hang."""
        call.open()
        gates["sent"].set()
        await gates["hold"].wait()

    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(held)

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        await die(bench, run, "a")
        await next_one.advance(run)
        row = await next_one.row(run)
        assert (row["status"], row["open_ops"], row["unknown_ops"]) == ("needs_reconciliation", 0, 1)
        gates["hold"].set()
        await asyncio.wait_for(dying, 60)
        kept = await bench.fetch("select kind, happened from runs_evidence where kind = 'receipt'")
        assert kept == [{"kind": "receipt", "happened": True}]


async def test_a_command_whose_claim_was_lost_is_killed_and_reported_as_interrupted(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> str:
        try:
            await ctx.tool(run_command, command="echo begun; exec sleep 600")
        except ToolFailed as error:
            return error.code
        return "ended"

    async with a_worker("a") as bench, a_worker("b") as next_one:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await bench.until_event(run, "tool.progress")
        await die(bench, run, "a")
        await asyncio.wait_for(dying, 60)
        await next_one.advance(run)
        assert (await next_one.row(run))["result"] == "interrupted"
        receipt = (await next_one.operations(run))[0]["receipt"]
        assert (receipt["stopped"], receipt["proof"]) == (True, "process tree empty")


async def test_a_stored_receipt_is_returned_without_a_second_call(a_worker: OpenWorker) -> None:
    walks: list[int] = []

    async def tested(ctx: RunContext) -> Any:
        walks.append(1)
        first = await ctx.tool(keyed_write, word="k")
        await ctx.sleep(30)
        return first

    gates["hold"].set()
    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        await bench.fetch("update runs_run set status = 'running', waiting_for = null, wake_at = null")
        await bench.fetch("update runs_step set state = 'finished', finished_at = now() where kind = 'timer'")
        await bench.advance(run)
        assert (await bench.row(run))["result"] == "k"
    assert len(walks) == 2
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("is_sent", "state", "status"), [(True, "unknown", "needs_reconciliation"), (False, "refuted", "cancelled")]
)
async def test_a_write_that_stops_waiting_at_a_stop_is_judged_by_whether_it_was_sent(
    a_worker: OpenWorker, is_sent: bool, state: str, status: str
) -> None:
    async def tested(ctx: RunContext) -> Any:
        return await ctx.tool(write_that_minds_a_stop, is_sent=is_sent)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        advancing = bench.advancing(run)
        await gates["sent"].wait()
        await bench.decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER))
        await advancing
        assert [o["state"] for o in await bench.operations(run)] == [state]
        row = await bench.row(run)
        assert (row["status"], row["open_ops"]) == (status, 0)
