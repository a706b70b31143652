"""ctx.spawn on real PostgreSQL: children side by side, replays, failures, doubts, and what a stop does to the tree."""

import asyncio
from typing import Any

import pytest

from runs.agents.errors import ChildFailed
from runs.decisions.cancels import request_cancel
from runs.decisions.claims import claim
from runs.decisions.dispatch import OperationCall, StepCall, dispatch
from runs.decisions.endings import park
from runs.decisions.operations import settle
from runs.decisions.steps import OperationOutcome, finish_step
from runs.ids import new_id
from runs.states import CancelReason
from tests.runs.execution.conftest import Bench, Made, OpenWorker

CHILDREN = "select * from runs_run where parent_id = %(run)s order by input ->> 'key', input ->> 'steps'"
INPUT = {"key": "child", "n": 0, "steps": 1}


async def children_of(bench: Bench, run: Made) -> list[Made]:
    rows = await bench.fetch(CHILDREN, run=run.pk)
    return [Made(row["id"], row["stream_id"], row["created_by_id"]) for row in rows]


async def test_a_run_waits_for_its_child_without_a_worker_and_gets_its_result(a_worker: OpenWorker) -> None:
    async def parent(ctx: Any) -> Any:
        return await ctx.spawn("probe", INPUT, title="the child")

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["waiting_for"], row["open_children"], row["lease_owner"]) == (
            "waiting",
            "child",
            1,
            None,
        )
        (child,) = await children_of(bench, run)
        assert (await bench.row(child))["title"] == "the child"
        await bench.advance(child)
        row = await bench.row(run)  # the child's worker has told it at once
        assert (row["status"], row["open_children"]) == ("running", 0)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"]) == (
            "completed",
            {"characters": 0, "approved": None, "tool": None, "shell": []},
        )
        assert await bench.steps(run) == [("1", "child", "finished")]
        assert len(await children_of(bench, run)) == 1


async def test_children_run_side_by_side_and_one_that_fails_is_an_error_of_its_branch(a_worker: OpenWorker) -> None:
    async def parent(ctx: Any) -> Any:
        good, bad = await ctx.gather(
            ctx.spawn("probe", INPUT), ctx.spawn("probe", {"key": "bad", "n": 0, "text": "x", "hold_at": 5}),
            return_errors=True,
        )  # fmt: skip
        return [good["characters"], bad.code, bad.child_id]

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        await bench.advance(run)
        bad, good = await children_of(bench, run)
        assert (await bench.row(run))["open_children"] == 2
        await bench.advance(good)
        await bench.decide(request_cancel(run_id=bad.pk, reason=CancelReason.USER))
        assert (await bench.row(run))["open_children"] == 0
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["result"]) == ("completed", [0, "child_cancelled", f"run_{bad.pk.hex}"])


async def test_a_child_that_ends_while_a_sibling_step_runs_goes_on_in_the_same_claim(a_worker: OpenWorker) -> None:
    seen = asyncio.Event()

    async def parent(ctx: Any) -> Any:
        async def first() -> Any:
            await ctx.spawn("probe", INPUT)
            await ctx.say("after the child")
            seen.set()

        async def second() -> Any:
            with ctx._claim.branches.step_in_flight():
                await seen.wait()

        await ctx.gather(first(), second())

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        advancing = bench.advancing(run)
        await bench.until_event(run, "child.started")
        (child,) = await children_of(bench, run)
        await bench.advance(child)
        await asyncio.wait_for(advancing, 60)
        row = await bench.row(run)
        assert (row["status"], row["fence"]) == ("completed", 2)  # one claim, and the end


async def test_what_cannot_begin_is_refused_before_it_is_a_step(a_worker: OpenWorker) -> None:
    async def parent(ctx: Any) -> Any:
        codes = []
        for agent, given in (("nobody", {}), ("probe", {"key": "x", "n": -1})):
            try:
                await ctx.spawn(agent, given)
            except ChildFailed as error:
                codes.append(error.code)
        return codes

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        await bench.advance(run)
        assert (await bench.row(run))["result"] == ["unknown_agent", "invalid_input"]
        assert await bench.steps(run) == []


async def test_a_run_with_a_child_in_doubt_parks_and_goes_on_once_both_are_settled(a_worker: OpenWorker) -> None:
    async def parent(ctx: Any) -> Any:
        await ctx.gather(ctx.spawn("probe", INPUT), ctx.spawn("probe", {**INPUT, "steps": 2}))

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        await bench.advance(run)
        doubtful, sibling = await children_of(bench, run)
        await leave_in_doubt(bench, doubtful)
        row = await bench.row(run)
        assert (row["status"], row["open_children"], row["unknown_ops"]) == ("running", 1, 1)
        await bench.advance(run)
        row = await bench.row(run)  # it does not park while a child goes on
        assert (row["status"], row["waiting_for"]) == ("waiting", "child")
        await bench.advance(sibling)
        await bench.advance(run)
        assert (await bench.row(run))["status"] == "needs_reconciliation"
        (operation,) = await bench.operations(doubtful)
        await bench.decide(
            settle(
                operation_id=operation["id"], version=operation["version"], happened=True, source="verdict", detail={}
            )
        )
        row = await bench.row(run)
        assert (row["status"], row["error_code"]) == ("failed", "interrupted")
        assert (await bench.types(run))[-2:] == ["child.settled", "run.reconciled"]


async def leave_in_doubt(bench: Bench, child: Made) -> None:
    fence = (await bench.decide(claim(run_id=child.pk, worker="w", lease_seconds=60.0))).fence
    step = StepCall("1", "tool", "t", {}, "d" * 64, "write")
    call = OperationCall(f"{child.pk.hex}:1", False, True, 0.0)
    sent = await bench.decide(
        dispatch(run_id=child.pk, fence=fence, worker="w", step=step, nonce=new_id(), operation=call)
    )
    outcome = OperationOutcome("unknown", {})
    await bench.decide(finish_step(run_id=child.pk, fence=fence, step_id=sent.step_id, state="open", outcome=outcome))
    await bench.decide(park(run_id=child.pk, fence=fence))


async def test_a_child_that_the_agent_stops_waiting_for_is_stopped(a_worker: OpenWorker) -> None:
    async def parent(ctx: Any) -> Any:
        try:
            async with asyncio.timeout(0.3):
                await ctx.gather(ctx.spawn("probe", INPUT), hold(ctx))
        except TimeoutError:
            return "gave up"

    async def hold(ctx: Any) -> None:
        with ctx._claim.branches.step_in_flight():
            await asyncio.sleep(60)

    async with a_worker() as bench:
        run = await bench.run_of(parent)
        await bench.advance(run)
        (child,) = await children_of(bench, run)
        row = await bench.row(child)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "parent")
        assert ((await bench.row(run))["status"], (await bench.row(run))["result"]) == ("completed", "gave up")


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "waiting"])
async def test_a_stop_of_a_parent_waits_for_its_children(a_worker: OpenWorker, is_held: bool) -> None:
    streams = '{"scripted": {"n": 100000, "rate": 50}}'

    async def parent(ctx: Any) -> Any:
        side = [ctx.model(streams, model="scripted")] if is_held else []
        await ctx.gather(ctx.spawn("probe", {"key": "t", "n": 100_000, "rate": 50}), *side)

    async with a_worker() as bench, a_worker("worker-b") as other:
        run = await bench.run_of(parent)
        parent_run = bench.advancing(run)
        await bench.until_event(run, "text.delta" if is_held else "run.waiting")
        (child,) = await children_of(bench, run)
        child_run = other.advancing(child)
        await bench.until_event(child, "text.delta")
        answer = await bench.decide(request_cancel(run_id=run.pk, reason=CancelReason.USER))
        assert {e["outcome"] for e in answer.effects} == {"pending"}
        await asyncio.wait_for(asyncio.gather(parent_run, child_run), 60)
        row = await bench.row(run)
        assert (row["status"], row["open_children"]) == ("cancelled", 0)
        assert sorted((e["kind"], e["outcome"]) for e in row["cancel_effects"]) == (
            [("child", "stopped"), ("model", "abandoned")] if is_held else [("child", "stopped")]
        )
        assert (await bench.row(child))["cancel_reason"] == "parent"
        assert (await bench.row(child))["terminal_at"] < row["terminal_at"]


@pytest.mark.parametrize("gone", ["rights", "budget"])
async def test_a_run_that_may_not_go_on_is_stopped_at_its_next_dispatch(a_worker: OpenWorker, gone: str) -> None:
    async def parent(ctx: Any) -> Any:
        await ctx.model('{"scripted": {"text": "one two three", "rate": 0}}')
        if gone == "rights":
            await bench.worker.hands.database.fetch(
                "update auth_user set is_active = false where id = %(id)s returning id", {"id": run.user_id}
            )
        await ctx.model('{"scripted": {"text": "four", "rate": 0}}')
        return "went on"

    async with a_worker() as bench:
        run = await bench.run_of(parent, budget_tokens=2 if gone == "budget" else None)
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "policy")
        assert row["cancel_note"]
        assert [s[0] for s in await bench.steps(run)] == ["1"]
