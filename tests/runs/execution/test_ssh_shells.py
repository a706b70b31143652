"""A shell on another machine, which is a real sshd here: its run ends only as far as the other side has proven it."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from runs.decisions import cancels, claims
from runs.models import ShellTarget
from runs.states import CancelReason
from runs.supervisor.sweeps import sweep_once
from runs.supervisor.terminals import end_left_terminals
from runs.supervisor.verification import verify_once
from tests.runs.execution.conftest import Bench, OpenWorker
from tests.runs.execution.shells import Opened, a_shell
from tests.tools.builders import a_marker, living, wait_until
from tests.tools.processes.terminals.conftest import Terminals
from tests.tools.processes.terminals.sshd import Sshd, a_key, sshd  # noqa: F401 - a fixture

type Remote = Callable[..., AbstractAsyncContextManager[tuple[Bench, Opened]]]


@pytest.fixture
def remote(a_worker: OpenWorker, terminals: Terminals, sshd: Sshd) -> Remote:  # noqa: F811
    """Open a worker, and a shell on the sshd that nobody has claimed yet."""

    @contextlib.asynccontextmanager
    async def opened(**changes: Any) -> AsyncIterator[tuple[Bench, Opened]]:
        async with a_worker("worker-a", terminals=terminals.folder) as bench:
            wanted = {
                "tenant": bench.person.tenant, "name": "far", "kind": "ssh", "host": "127.0.0.1", "port": sshd.port,
                "username": sshd.username, "host_key": sshd.host_key, "key_file": str(sshd.key_file),
            }  # fmt: skip
            await sync_to_async(ShellTarget.objects.create)(**(wanted | changes))
            yield bench, await a_shell(bench, terminals.folder, target="far")

    return opened


async def outcome(bench: Bench, shell: Opened) -> tuple[str, dict[str, Any]]:
    (operation,) = await bench.operations(shell)
    return operation["state"], operation["receipt"] or {}


async def test_exit_completes_the_run_once_nothing_is_left_there(remote: Remote, terminals: Terminals) -> None:
    marker = a_marker()
    async with remote() as (bench, shell):
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type(f"(setsid sleep {marker} &); echo be''gun\r", sees="begun")
        await wait_until(lambda: living(marker))
        await shell.type("exit 3\r", sees="exit 3", generation=2)
        await running
        assert not living(marker)
        row = await bench.row(shell)
        assert (row["status"], row["result"]) == ("completed", {"exit_code": 3, "signal": None})
        state, receipt = await outcome(bench, shell)
        assert (state, receipt["proof"]) == ("succeeded", "process tree empty, nothing of it left on 127.0.0.1")
        await shell.is_gone()
        assert [path.name for path in terminals.folder.iterdir() if path.suffix != ".lock"] == ["host.sock"]


async def test_a_stop_is_a_clean_one_because_the_other_side_is_empty(remote: Remote) -> None:
    marker = a_marker()
    async with remote() as (bench, shell):
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type(f"(setsid sleep {marker} &); echo be''gun\r", sees="begun")
        await wait_until(lambda: living(marker))
        await bench.decide(cancels.request_cancel(run_id=shell.pk, reason=CancelReason.USER))
        await running
        assert not living(marker)
        assert (await bench.row(shell))["status"] == "cancelled"


async def test_a_stop_that_nobody_can_prove_is_being_verified(remote: Remote, sshd: Sshd) -> None:  # noqa: F811
    """The other machine goes away, and what ran there may still run: the run never says that it was stopped."""
    async with remote() as (bench, shell):
        running = bench.advancing(shell)
        await shell.is_up()
        await shell.type("echo be''gun\r", sees="begun")
        sshd.end()
        await running
        row = await bench.row(shell)
        assert row["status"] == "needs_reconciliation"
        state, receipt = await outcome(bench, shell)
        assert state == "unknown"
        assert "The connection to 127.0.0.1 was lost. The end of the shell is not proven" in str(receipt)


async def test_another_host_key_fails_the_run_with_the_next_move(remote: Remote, sshd: Sshd) -> None:  # noqa: F811
    async with remote(host_key=a_key(sshd.folder / "other")) as (bench, shell):
        await bench.advancing(shell)
        row = await bench.row(shell)
        assert row["status"] == "failed"
        state, receipt = await outcome(bench, shell)
        assert (state, receipt["code"]) == ("failed", "ssh_host_key")
        assert "An admin compares the keys" in receipt["error"]


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_without_a_worker_the_supervisor_ends_it_and_settles_only_with_a_look(
    remote: Remote,
    sshd: Sshd,  # noqa: F811
    terminals: Terminals,
    settings: Any,
    is_reachable: bool,
) -> None:
    """The stop passes its deadline with no worker; then our own program's end alone would prove nothing."""
    marker = a_marker()
    async with remote() as (bench, shell):
        settings.TERMINALS, settings.WORKSPACES = terminals.folder, bench.worker.hands.workspaces
        losing = bench.advancing(shell)
        await shell.is_up()
        await shell.type(f"(setsid sleep {marker} &); echo be''gun\r", sees="begun")
        await wait_until(lambda: living(marker))
        assert await bench.decide(claims.take_from_dead(run_id=shell.pk, worker="worker-a"))
        await losing
        await bench.decide(cancels.request_cancel(run_id=shell.pk, reason=CancelReason.USER))
        await bench.fetch("update runs_run set stop_deadline_at = now() where id = %(run)s", run=shell.pk)
        await sync_to_async(sweep_once)()
        assert (await bench.row(shell))["status"] == "needs_reconciliation"
        if not is_reachable:
            sshd.end()
        assert await sync_to_async(end_left_terminals)() == 1
        await shell.is_gone()
        await sync_to_async(verify_once)()
        row = await bench.row(shell)
        assert row["status"] == ("cancelled" if is_reachable else "needs_reconciliation")
        assert bool(living(marker)) is not is_reachable
    for pid in living(marker):
        os.kill(pid, signal.SIGKILL)
