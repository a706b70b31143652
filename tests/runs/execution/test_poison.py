"""The end of a run whose workers died three times: its agent does not run, and what it had sent is not guessed."""

from typing import Any

import pytest

from runs.decisions.claims import claim, mark_holder_gone, take_from_dead
from runs.decisions.dispatch import OperationCall, StepCall, dispatch
from runs.ids import new_id
from tests.runs.execution.conftest import Bench, Made, OpenWorker

walks: list[int] = []


async def remembers(ctx: Any) -> Any:
    walks.append(1)
    return "it ran"


async def die_three_times(bench: Bench, run: Made, tool: str | None) -> None:
    """Let three workers die while a call is open: a write of that tool, or a read."""
    for number in range(3):
        fence = (await bench.decide(claim(run_id=run.pk, worker="dead", lease_seconds=60.0, is_alone=True))).fence
        if tool is None or number == 0:
            step = StepCall("1", "tool", tool or "fetch", {"a": 1}, "d" * 64, "write" if tool else "read")
            call = OperationCall(f"run_{run.pk.hex}:1:{'d' * 32}", False, False, 0.0) if tool else None
            await bench.decide(
                dispatch(run_id=run.pk, fence=fence, worker="dead", step=step, nonce=new_id(), operation=call)
            )
        await bench.decide(mark_holder_gone(worker="dead", proof={"signal": 9}))
        await bench.decide(take_from_dead(run_id=run.pk, worker="dead"))


@pytest.mark.parametrize(
    ("tool", "status"), [(None, "failed"), ("no_such_tool", "needs_reconciliation")], ids=["read", "write"]
)
async def test_the_next_claimant_ends_the_run_without_its_agent(
    a_worker: OpenWorker, tool: str | None, status: str
) -> None:
    walks.clear()
    async with a_worker() as bench:
        run = await bench.run_of(remembers)
        await die_three_times(bench, run, tool)
        assert (await bench.row(run))["deaths"] == 3
        await bench.advance(run)
        row = await bench.row(run)
        assert (row["status"], walks) == (status, [])
        if status == "failed":
            assert row["error_code"] == "worker_lost"
            assert "step 1 (fetch)" in row["error_message"]
        else:
            assert [o["state"] for o in await bench.operations(run)] == ["unknown"]


async def test_a_shared_worker_leaves_a_run_that_must_run_alone_to_its_own(
    a_worker: OpenWorker,
) -> None:
    walks.clear()
    async with a_worker() as bench, a_worker("alone", is_alone=True) as alone:
        run = await bench.run_of(remembers)
        await bench.decide(claim(run_id=run.pk, worker="dead", lease_seconds=60.0))
        await bench.decide(take_from_dead(run_id=run.pk, worker="dead"))
        await bench.decide(claim(run_id=run.pk, worker="dead", lease_seconds=60.0))
        await bench.decide(take_from_dead(run_id=run.pk, worker="dead"))
        assert await bench.advance(run) is False
        assert await alone.advance(run) is True
        assert ((await bench.row(run))["result"], walks) == ("it ran", [1])
