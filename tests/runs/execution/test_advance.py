"""Advance: a run from its claim to its end, and on another worker after a death."""

from runs.agents import RunContext
from tests.runs.execution.conftest import OpenWorker, deltas, script


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
