"""Stop: what is running ends, what is in flight is named, and nothing new begins."""

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from runs import failpoints
from runs.agents import RunContext
from runs.conf import limits
from runs.decisions import claims
from runs.decisions.cancels import request_cancel
from runs.states import CancelReason
from tests.runs.execution.conftest import Bench, Made, OpenWorker, deltas, script, until
from tools import Outcome, Receipt, ToolCall, tool
from tools.builtin import run_command

gates: dict[str, asyncio.Event] = {}
sent: list[str] = []


class Answer(BaseModel):
    """What a person says."""

    yes: bool


@tool(effect="write", look_up=None)
async def slow_write(call: ToolCall, word: str) -> Receipt:
    """Write, and answer when the test says so."""
    call.open()
    sent.append(word)
    gates["sent"].set()
    await gates["answer"].wait()
    return Receipt(Outcome.SUCCEEDED, value=word, proof="http 201", external_id="x-1")


@tool(effect="read")
async def endless_read() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


@pytest.fixture
def rare_renewals(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No renewal within the time of a test, so that it brings nobody a stop."""
    monkeypatch.setenv("OUTLIVE_RENEW_EVERY_SECONDS", "200")
    monkeypatch.setenv("OUTLIVE_LEASE_SECONDS", "600")
    limits.cache_clear()
    yield
    monkeypatch.undo()
    limits.cache_clear()


@pytest.fixture(autouse=True)
def fresh_gates() -> None:
    gates.update(sent=asyncio.Event(), answer=asyncio.Event())
    sent.clear()


async def cancel(bench: Bench, run: Made) -> Any:
    """Ask the run to stop, as a person does; the doorbell goes to the worker."""
    return await bench.decide(request_cancel(run_id=run.pk, reason=CancelReason.USER, by=run.user_id))


async def test_a_stop_in_mid_stream_keeps_the_text_as_not_final(a_worker: OpenWorker, rare_renewals: None) -> None:
    async def tested(ctx: RunContext) -> str:
        return (await ctx.model(script(key="mid", text="a b c", hold_at=2))).text

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "text.delta", 2)
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)  # by the doorbell, not by the renewal
        row = await bench.row(run)
        events = await bench.events(run)
    assert row["status"] == "cancelled"
    assert row["cancel_effects"][0] | {"step_id": ""} == {
        "step_id": "", "path": "1", "name": "model", "kind": "model", "outcome": "abandoned",
        "provider_side": "stopped",
    }  # fmt: skip
    assert deltas(events) == "a b "
    assert next(e["data"] for e in events if e["type"] == "text.end")["reason"] == "stop"
    kinds = [e["type"] for e in events]
    assert kinds.index("text.end") < kinds.index("run.cancelled") == len(kinds) - 1


async def test_a_stop_drops_a_read_at_once(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(endless_read)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "tool.started")
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)
        assert (await bench.row(run))["status"] == "cancelled"
        assert await bench.steps(run) == [("1", "tool", "abandoned")]


async def test_a_write_in_flight_brings_its_receipt_before_the_end(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")
        await ctx.tool(slow_write, word="never")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await gates["sent"].wait()
        answer = await cancel(bench, run)
        assert [e["outcome"] for e in answer.effects] == ["pending"]
        await bench.until_event(run, "run.cancelling")
        gates["answer"].set()
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert row["status"] == "cancelled"
        assert [(e["outcome"], e["external_id"]) for e in row["cancel_effects"]] == [("committed", "x-1")]
    assert sent == ["w"]


async def test_a_write_without_a_receipt_at_the_stop_deadline_is_unknown(
    a_worker: OpenWorker, short_stop: None
) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await gates["sent"].wait()
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert (row["status"], row["unknown_ops"]) == ("needs_reconciliation", 1)
        assert [e["outcome"] for e in row["cancel_effects"]] == ["unknown"]


async def test_a_permit_that_was_not_used_is_given_back(a_worker: OpenWorker) -> None:
    """The stop arrives between the permit and the first byte: the call must not begin, and the receipt says so."""

    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")

    async with a_worker() as bench:
        run = await bench.run_of(tested)

        async def stop_now() -> None:
            await cancel(bench, run)
            await bench.until_event(run, "run.cancelling")

        with failpoints.armed("after_dispatch_before_receipt", stop_now):
            await bench.advance(run)
        row = await bench.row(run)
        assert row["status"] == "cancelled"
        assert [e["outcome"] for e in row["cancel_effects"]] == ["not_started"]
        assert [o["state"] for o in await bench.operations(run)] == ["refuted"]
    assert sent == []


async def test_a_stop_before_the_dispatch_lets_nothing_begin(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")

    async with a_worker() as bench:
        run = await bench.run_of(tested)

        async def stop_now() -> None:
            await cancel(bench, run)

        with failpoints.armed("before_dispatch", stop_now):
            await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["cancel_effects"]) == ("cancelled", [])
    assert sent == []


async def test_a_stop_ends_a_command_and_proves_it(a_worker: OpenWorker, caplog: pytest.LogCaptureFixture) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(run_command, command="echo begun; exec sleep 600")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "tool.progress")
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)
        row = await bench.row(run)
        assert row["status"] == "cancelled"
        assert [(e["outcome"], e["proof"]) for e in row["cancel_effects"]] == [("stopped", "process tree empty")]
        results = [e["data"] for e in await bench.events(run) if e["type"] == "tool.result"]
        assert [one.get("stopped") for one in results] == [True]
    assert "agent.swallowed_cancel" not in caplog.text  # what it got is the command's end


async def test_a_stop_of_a_waiting_run_needs_no_worker(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.ask("Go on?", schema=Answer)

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        await bench.advance(run)
        await cancel(bench, run)
        assert (await bench.row(run))["status"] == "cancelled"
        assert not await bench.advance(run)


async def test_a_stop_reaches_a_question_beside_a_running_branch(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.gather(ctx.ask("Go on?", schema=Answer), ctx.tool(endless_read))

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "tool.started")
        await bench.until_event(run, "input.requested")
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)
        assert (await bench.row(run))["status"] == "cancelled"


async def test_the_deadline_stops_the_run_on_record(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(endless_read)

    async with a_worker() as bench:
        run = await bench.run_of(tested, deadline_seconds=0.5)
        await asyncio.wait_for(bench.advancing(run), 60)
        row = await bench.row(run)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "deadline")


async def test_an_agent_that_swallows_the_cancel_is_named_and_left_behind(
    a_worker: OpenWorker, short_stop: None, caplog: pytest.LogCaptureFixture
) -> None:
    freed = asyncio.Event()

    async def tested(ctx: RunContext) -> None:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "run.started")
        await cancel(bench, run)
        await asyncio.wait_for(working, 60)
        assert (await bench.row(run))["status"] == "cancelled"
        freed.set()
    named = [r for r in caplog.records if r.message == "agent.ignores_cancel"]
    assert len(named) == 1
    assert "test_stopping.py:" in named[0].at


async def test_a_stop_of_a_run_whose_worker_died_is_carried_out_by_the_next(a_worker: OpenWorker) -> None:
    """Worker a died with a write in flight, then a person stops: the next claimant judges, and runs no agent."""

    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")

    async with a_worker("a") as bench, a_worker("b") as other:
        run = await bench.run_of(tested)
        dying = bench.advancing(run)
        await gates["sent"].wait()
        await bench.decide(claims.take_from_dead(run_id=run.pk, worker="a"))
        await cancel(bench, run)
        await other.advance(run)
        row = await other.row(run)
        assert (row["status"], row["cancel_reason"]) == ("needs_reconciliation", "user")
        # The frozen worker's receipt arrives late: it is evidence, and changes nothing by itself (RULES H7).
        await until(lambda: _is_lost(bench, run))
        gates["answer"].set()
        await asyncio.wait_for(dying, 60)
        kept = await bench.fetch("select kind, happened, detail from runs_evidence")
        assert [(e["kind"], e["happened"], e["detail"]["external_id"]) for e in kept] == [("receipt", True, "x-1")]
        assert (await bench.row(run))["status"] == "needs_reconciliation"


async def _is_lost(bench: Bench, run: Made) -> bool:
    return bench.worker.keeper.find(run.pk) is None


@pytest.fixture
def short_stop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stop deadline and clean-up window of a second or two, so that waiting for them is quick."""
    monkeypatch.setenv("OUTLIVE_STOP_DEADLINE_SECONDS", "2.5")
    monkeypatch.setenv("OUTLIVE_CLEANUP_SECONDS", "0.3")
    limits.cache_clear()
    yield
    monkeypatch.undo()
    limits.cache_clear()


@pytest.fixture(autouse=True)
def hear_logs() -> Any:
    """Our loggers propagate to the root, where caplog listens."""
    logging.getLogger("runs").setLevel(logging.INFO)
