"""A forced stop under a live worker: it ends what it runs, as ever, and brings what it learns as evidence."""

import asyncio
from typing import Any

from asgiref.sync import sync_to_async

from runs.agents import RunContext
from runs.decisions.forcing import force_stop
from runs.supervisor.terminals import end_left_terminals
from runs.supervisor.verification import verify_once
from tests.runs.execution.conftest import Bench, Made, OpenWorker, until
from tests.runs.execution.shells import a_shell
from tests.runs.execution.test_shells import Shelled
from tests.runs.execution.test_stopping import fresh_gates, gates, sent, slow_write
from tests.tools.processes.terminals.conftest import Terminals
from tools.builtin import run_command

__all__ = ["fresh_gates"]  # a fixture
SECONDS = 60.0


async def force(bench: Bench, run: Made) -> Any:
    return await bench.decide(force_stop(run_id=run.pk, by=run.user_id))


async def test_the_run_ends_at_once_and_the_receipt_of_its_worker_settles_it(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(slow_write, word="w")
        await ctx.tool(slow_write, word="never")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await gates["sent"].wait()
        assert [e["outcome"] for e in (await force(bench, run)).effects] == ["unknown"]
        assert (await bench.row(run))["status"] == "needs_reconciliation"

        async def is_lost() -> bool:
            return bench.worker.keeper.find(run.pk) is None

        await until(is_lost)
        gates["answer"].set()
        await asyncio.wait_for(working, SECONDS)
        assert await sync_to_async(verify_once)() == 1
        row = await bench.row(run)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "operator")
        assert (await bench.types(run)).count("run.stop_forced") == 1
    assert sent == ["w"]


async def test_a_command_is_ended_by_its_worker_and_the_proof_settles_the_run(a_worker: OpenWorker) -> None:
    async def tested(ctx: RunContext) -> None:
        await ctx.tool(run_command, command="echo begun; exec sleep 600")

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await bench.until_event(run, "tool.progress")
        await force(bench, run)
        assert (await bench.row(run))["status"] == "needs_reconciliation"
        await asyncio.wait_for(working, SECONDS)
        proofs = await bench.fetch("select detail from runs_evidence where happened")
        assert [p["detail"]["proof"] for p in proofs] == ["process tree empty"]
        await sync_to_async(verify_once)()
        assert (await bench.row(run))["status"] == "cancelled"


async def test_a_worker_that_has_nothing_outside_just_loses_its_run(a_worker: OpenWorker) -> None:
    waits = asyncio.Event()

    async def tested(ctx: RunContext) -> None:
        waits.set()
        await asyncio.Event().wait()

    async with a_worker() as bench:
        run = await bench.run_of(tested)
        working = bench.advancing(run)
        await waits.wait()
        await force(bench, run)
        assert (await bench.row(run))["status"] == "cancelled"
        await asyncio.wait_for(working, SECONDS)
        assert (await bench.types(run))[-1] == "run.cancelled"


async def test_a_shell_that_its_worker_owns_is_ended_too_and_its_proof_settles_the_run(
    shelled: Shelled, terminals: Terminals, settings: Any
) -> None:
    """Its worker only loses it: a terminal lives on without its owner. The supervisor of its machine ends it."""
    async with shelled() as bench:
        settings.TERMINALS, settings.WORKSPACES = terminals.folder, bench.worker.hands.workspaces
        shell = await a_shell(bench, terminals.folder)
        working = bench.advancing(shell)
        await shell.is_up()
        await shell.type("trap '' TERM HUP; echo read''y\n", sees="ready")
        await bench.decide(force_stop(run_id=shell.pk, by=shell.user_id))
        assert (await bench.row(shell))["status"] == "needs_reconciliation"
        await asyncio.wait_for(working, SECONDS)
        assert shell.is_there
        assert await sync_to_async(end_left_terminals)() == 1
        await shell.is_gone()
        await sync_to_async(verify_once)()
        row = await bench.row(shell)
        assert (row["status"], row["unknown_ops"]) == ("cancelled", 0)
