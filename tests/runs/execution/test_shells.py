"""A shell's run under claims that come and go: started once, adopted, stopped, and always proven."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
from asgiref.sync import sync_to_async

from runs.decisions import cancels, claims
from runs.models import ShellTarget
from runs.states import CancelReason
from runs.supervisor.sweeps import sweep_once
from runs.supervisor.terminals import end_left_terminals
from runs.supervisor.verification import verify_once
from tests.runs.execution.conftest import Bench, until
from tests.runs.execution.shells import Opened, a_shell
from tests.tools.processes.terminals.conftest import Terminals

type Shelled = Callable[..., AbstractAsyncContextManager[Bench]]


async def ask_to_stop(bench: Bench, shell: Opened) -> None:
    await bench.decide(cancels.request_cancel(run_id=shell.pk, reason=CancelReason.USER))


async def freed(bench: Bench, shell: Opened, worker: str = "worker-a") -> None:
    """What the parent of the workers does when it has seen one die."""
    assert await bench.decide(claims.take_from_dead(run_id=shell.pk, worker=worker))


async def test_exit_completes_the_run_with_the_code(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        shell = await a_shell(bench, terminals.folder)
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type("exit 7\n", sees="exit 7")
        await running
        row = await bench.row(shell)
        assert (row["status"], row["result"]) == ("completed", {"exit_code": 7, "signal": None})
        (operation,) = await bench.operations(shell)
        assert (operation["state"], operation["receipt"]["proof"]) == ("succeeded", "process tree empty")
        await shell.is_gone()
        assert [path.name for path in terminals.folder.iterdir() if path.suffix != ".lock"] == ["host.sock"]
        assert list((bench.worker.hands.workspaces / ".proofs").iterdir()) == []


async def test_stop_ends_it_with_all_that_it_started(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        shell = await a_shell(bench, terminals.folder)
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type("trap '' TERM HUP; setsid sleep 31338 & echo run''ning\n", sees="running")
        pids: list[psutil.Process] = []

        async def both() -> bool:
            pids[:] = shell.pids()
            return any(pid.name() == "sleep" for pid in pids)

        await until(both)
        await ask_to_stop(bench, shell)
        await running
        row = await bench.row(shell)
        assert (row["status"], row["cancel_reason"]) == ("cancelled", "user")
        assert [effect["outcome"] for effect in row["cancel_effects"]] == ["stopped"]
        assert not any(pid.is_running() for pid in pids)
        (operation,) = await bench.operations(shell)
        assert (operation["receipt"]["code"], operation["receipt"]["proof"]) == ("stopped", "process tree empty")


async def test_the_next_claim_adopts_what_a_lost_one_has_let_go(shelled: Shelled, terminals: Terminals) -> None:
    """The worker freezes, its lease ends, another one takes over: the same shell, the same variables."""
    async with shelled("worker-a") as first, shelled("worker-b") as second:
        shell = await a_shell(first, terminals.folder)
        losing = first.advancing(shell)
        await shell.is_up()
        await shell.type("X=1; echo $X''1\n", sees="11")
        await freed(first, shell)
        await losing
        adopting = second.advancing(shell)
        await second.until_event(shell, "claim.started", 2)
        await shell.type("echo x$X''x; exit 3\n", sees="x1x", generation=2)
        await adopting
        row = await second.row(shell)
        assert (row["status"], row["result"]) == ("completed", {"exit_code": 3, "signal": None})
        assert row["deaths"] == 0
        types = await second.types(shell)
        assert (types.count("tool.started"), types.count("tool.result")) == (1, 1)


async def test_a_shell_survives_as_many_dead_workers_as_there_are(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled("worker-a") as bench:
        shell = await a_shell(bench, terminals.folder)
        for generation in range(1, 6):
            losing = bench.advancing(shell)
            await bench.until_event(shell, "claim.started", generation)
            await shell.is_up()
            await shell.type(f"echo a''live{generation}\n", sees=f"alive{generation}", generation=generation)
            await freed(bench, shell)
            await losing
        row = await bench.row(shell)
        assert (row["status"], row["deaths"]) == ("running", 0)
        await ask_to_stop(bench, shell)
        await bench.advance(shell)
        assert (await bench.row(shell))["status"] == "cancelled"


async def test_a_draining_worker_lets_go_at_once(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled("worker-a") as first, shelled("worker-b") as second:
        shell = await a_shell(first, terminals.folder)
        running = first.advancing(shell)
        await shell.is_up()
        await shell.type("echo read''y\n", sees="ready")
        first.worker.hands.draining.set()  # and the drain time is far from over
        await running
        row = await first.row(shell)
        assert (row["status"], row["lease_owner"], row["deaths"]) == ("running", None, 0)
        assert [step[2] for step in await first.steps(shell)] == ["open"]
        adopting = second.advancing(shell)
        await second.until_event(shell, "claim.started", 2)
        await shell.type("exit 0\n", sees="exit", generation=2)
        await adopting
        assert (await second.row(shell))["status"] == "completed"


async def test_a_draining_worker_lets_go_of_what_it_has_adopted(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled("worker-a") as first, shelled("worker-b") as second:
        shell = await a_shell(first, terminals.folder)
        running = first.advancing(shell)
        await shell.is_up()
        await freed(first, shell)
        await running
        adopting = second.advancing(shell)
        await second.until_event(shell, "claim.started", 2)
        await shell.type("echo read''y\n", sees="ready")
        second.worker.hands.draining.set()
        await adopting
        row = await second.row(shell)
        assert (row["status"], row["lease_owner"], row["open_ops"]) == ("running", None, 1)
        await ask_to_stop(first, shell)
        await first.advance(shell)
        assert (await first.row(shell))["status"] == "cancelled"


async def test_what_ended_while_nobody_owned_it_is_known_by_its_proof(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled("worker-a") as bench:
        shell = await a_shell(bench, terminals.folder)
        losing = bench.advancing(shell)
        await shell.is_up()
        await freed(bench, shell)
        await losing
        await shell.type("exit 5\n", sees="exit")
        await shell.is_gone()
        await bench.advance(shell)
        row = await bench.row(shell)
        assert (row["status"], row["result"]) == ("completed", {"exit_code": 5, "signal": None})
        assert list((bench.worker.hands.workspaces / ".proofs").iterdir()) == []


async def test_a_stop_while_no_worker_is_there_is_carried_out_by_the_next(
    shelled: Shelled, terminals: Terminals
) -> None:
    """Nobody takes it for unknown meanwhile: whoever adopts it can prove it."""
    async with shelled("worker-a") as bench:
        shell = await a_shell(bench, terminals.folder)
        losing = bench.advancing(shell)
        await shell.is_up()
        await freed(bench, shell)
        await losing
        await ask_to_stop(bench, shell)
        await sync_to_async(sweep_once)()
        assert (await bench.row(shell))["status"] == "cancel_requested"
        await bench.advance(shell)
        row = await bench.row(shell)
        assert (row["status"], row["unknown_ops"]) == ("cancelled", 0)
        await shell.is_gone()


async def test_without_a_host_it_fails_and_says_what_is_missing(shelled: Shelled, tmp_path: Path) -> None:
    async with shelled(terminals=tmp_path) as bench:
        shell = await a_shell(bench, tmp_path)
        for _ in range(150):  # it is tried a few times, with pauses that hold no worker
            await bench.advance(shell)
            if (await bench.row(shell))["terminal_at"] is not None:
                break
            await asyncio.sleep(0.2)
            await sync_to_async(sweep_once)()
        row = await bench.row(shell)
        assert row["status"] == "failed"
        assert "terminals" in row["error_message"]


async def test_a_terminal_that_is_gone_without_a_proof_is_unknown(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        shell = await a_shell(bench, terminals.folder)
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type("echo read''y\n", sees="ready")
        (ward,) = terminals.wards()
        terminals.process.kill()  # first the host, or it would end what its ward leaves behind
        terminals.process.wait()
        ward.kill()
        await running
        row = await bench.row(shell)
        assert (row["status"], row["unknown_ops"]) == ("needs_reconciliation", 1)


@pytest.mark.parametrize("is_stopping", [False, True])
async def test_a_killed_ward_is_proven_by_its_host(shelled: Shelled, terminals: Terminals, is_stopping: bool) -> None:
    async with shelled() as bench:
        shell = await a_shell(bench, terminals.folder)
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type("trap '' TERM HUP; setsid sleep 31338 & echo read''y\n", sees="ready")
        (ward,) = terminals.wards()
        if is_stopping:
            await ask_to_stop(bench, shell)
        ward.kill()
        await running
        row = await bench.row(shell)
        assert (row["status"], row["unknown_ops"]) == ("cancelled" if is_stopping else "failed", 0)
        assert row["error_code"] == (None if is_stopping else "interrupted")
        (operation,) = await bench.operations(shell)
        assert operation["receipt"]["proof"] == "process tree empty"
        assert shell.pids() == []
        await shell.is_gone()
        assert list((bench.worker.hands.workspaces / ".proofs").iterdir()) == []


async def test_a_machine_that_was_started_anew_is_a_proof(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        shell = await a_shell(bench, terminals.folder)
        losing = bench.advancing(shell)
        await shell.is_up()
        await freed(bench, shell)
        await losing
        (ward,) = terminals.wards()
        terminals.process.kill()
        terminals.process.wait()
        ward.kill()
        (note,) = terminals.folder.glob("*.json")
        note.write_text('{"key": "k", "boot": "another one"}')
        await bench.advance(shell)
        row = await bench.row(shell)
        assert (row["status"], row["error_code"]) == ("failed", "interrupted")


async def test_a_target_that_was_closed_meanwhile_opens_nothing(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        await sync_to_async(ShellTarget.objects.create)(tenant=bench.person.tenant, name="box")
        shell = await a_shell(bench, terminals.folder, target="box")
        await sync_to_async(ShellTarget.objects.update)(is_enabled=False)
        await bench.advance(shell)
        row = await bench.row(shell)
        assert (row["status"], row["error_code"]) == ("failed", "target_closed")
        assert not shell.is_there


async def test_a_terminal_that_no_worker_came_to_stop_in_time_is_ended_all_the_same(
    shelled: Shelled, terminals: Terminals, settings: Any
) -> None:
    """Past the stop deadline its run ends as unknown; the supervisor of that machine ends the terminal, with proof."""
    async with shelled("worker-a") as bench:
        settings.TERMINALS, settings.WORKSPACES = terminals.folder, bench.worker.hands.workspaces
        shell = await a_shell(bench, terminals.folder)
        losing = bench.advancing(shell)
        await shell.is_up()
        await shell.type("trap '' TERM HUP; echo read''y\n", sees="ready")
        await freed(bench, shell)
        await losing
        await ask_to_stop(bench, shell)
        assert await sync_to_async(end_left_terminals)() == 0
        await bench.fetch("update runs_run set stop_deadline_at = now() where id = %(run)s", run=shell.pk)
        await sync_to_async(sweep_once)()
        assert (await bench.row(shell))["status"] == "needs_reconciliation"
        assert await sync_to_async(end_left_terminals)() == 1
        await shell.is_gone()
        await sync_to_async(verify_once)()
        row = await bench.row(shell)
        assert (row["status"], row["unknown_ops"]) == ("cancelled", 0)
        assert list(terminals.folder.glob("*.json")) == []


async def test_a_recorded_shell_is_recorded_through_its_owners(
    shelled: Shelled, terminals: Terminals, settings: Any, tmp_path: Path
) -> None:
    settings.RECORDINGS = tmp_path / "recordings"
    async with shelled("worker-a") as first, shelled("worker-b") as second:
        await sync_to_async(ShellTarget.objects.create)(tenant=first.person.tenant, name="box", may_record=True)
        shell = await a_shell(first, terminals.folder, target="box", is_recorded=True)
        losing = first.advancing(shell)
        await first.until_event(shell, "tool.started")
        await shell.is_up()
        await shell.type("echo on''e\n", sees="one")
        await freed(first, shell)
        await losing
        await shell.type("echo betw''een\n", sees="between", generation=2)
        adopting = second.advancing(shell)
        await second.until_event(shell, "claim.started", 2)
        await shell.type("echo tw''o; exit\n", sees="two", generation=3)
        await adopting
        (path,) = settings.RECORDINGS.iterdir()
        assert path.name == f"{shell.key}.cast"
        printed = path.read_text()
        assert [word for word in ("one\\r\\n", "between\\r\\n", "two\\r\\n") if printed.count(word) != 1] == []
