"""Commands of an installation whose worker is root: they share the workspace with the file tools, and nothing else."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from runs.agents import RunContext
from runs.execution.installed import installed_worker
from runs.execution.worker_context import WorkerContext
from tests.runs.execution.conftest import Bench
from tools.builtin import read_file, run_command, write_file

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def installed(dsn: str, tmp_path: Path, settings: LazySettings) -> Iterator[AbstractAsyncContextManager[WorkerContext]]:
    settings.WORKSPACES, settings.COMMAND_USER = tmp_path / "workspaces", "nobody"
    with tempfile.TemporaryDirectory() as homes:  # pytest's own folders are closed to others
        Path(homes).chmod(0o711)
        settings.SHELL_HOMES = homes
        yield installed_worker("worker-a", is_alone=False)


async def test_a_command_shares_files_with_the_other_tools_and_cannot_read_its_worker(
    installed: AbstractAsyncContextManager[WorkerContext], person: Any, tmp_path: Path
) -> None:
    async def tested(ctx: RunContext) -> list[Any]:
        await ctx.tool(write_file, path="folder/given", content="from the agent")
        command = f"id -un; cat ~/folder/given; echo from-the-command >folder/made; cat /proc/{os.getpid()}/environ"
        said = await ctx.tool(run_command, command=command)
        return [said["stdout"], said["stderr"], await ctx.tool(read_file, path="folder/made")]

    async with installed as worker:
        bench = Bench(worker, person)
        run = await bench.run_of(tested)
        await bench.advance(run)
        stdout, stderr, made = (await bench.row(run))["result"]
    assert stdout == "nobody\nfrom the agent"
    assert "Permission denied" in stderr
    assert "from-the-command" in str(made)
    assert (tmp_path / "workspaces/.proofs").is_dir()  # where a supervisor looks for them
