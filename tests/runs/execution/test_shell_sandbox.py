"""What a program in a local shell can see and use of us (FAULTS B52), and who it is."""

import os
import pwd
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from asgiref.sync import sync_to_async

from runs.models import ShellTarget
from tests.runs.execution.conftest import Bench
from tests.runs.execution.shells import Opened, a_shell
from tests.tools.processes.terminals.conftest import Terminals

type Shelled = Callable[..., AbstractAsyncContextManager[Bench]]
LOOK = r"env; tr '\0' '\n' </proc/self/environ; tr '\0' '\n' </proc/$PPID/environ; ls -l /proc/self/fd; echo e''nd"
IS_ROOT = os.geteuid() == 0


async def output_of(bench: Bench, terminals: Terminals, command: str, sees: str = "end", **more: object) -> str:
    """Run a command as a shell of its own, and return all that it wrote."""
    shell: Opened = await a_shell(bench, terminals.folder, command=f"read x; {command}", **more)
    running = bench.advancing(shell)
    await shell.is_up()
    seen = await shell.type("\n", sees=sees)
    await running
    return seen


async def test_b52_no_secret_and_no_socket_of_ours_gets_in(
    shelled: Shelled, terminals: Terminals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OUTLIVE_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "ZZ_CANARY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "canary-3141")
    async with shelled() as bench:
        seen = await output_of(bench, terminals, LOOK)
    assert "canary-3141" not in seen
    assert "TERM=xterm-256color" in seen
    files = [line.split()[-1] for line in seen.splitlines() if " -> " in line]
    assert files, seen
    assert not [name for name in files if not name.startswith(("/dev/pts/", "/proc/"))], files


async def test_each_process_has_the_limits_of_the_target(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        limits = {"memory_mb": 512, "open_files": 99, "cpu_seconds": 77, "processes": 88}
        await sync_to_async(ShellTarget.objects.create)(tenant=bench.person.tenant, name="box", **limits)
        ask = 'bash -c "ulimit -d; ulimit -n; ulimit -t; ulimit -u"; echo e""nd'
        seen = await output_of(bench, terminals, ask, target="box")
        assert seen.split()[-5:-1] == ["524288", "99", "77", "88"], seen


async def test_what_takes_more_memory_than_it_may_ends_itself_only(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        await sync_to_async(ShellTarget.objects.create)(tenant=bench.person.tenant, name="box", memory_mb=256)
        greedy = "python3 -c 'x = bytearray(1 << 30)' 2>&1 | tail -1; echo e''nd"
        assert "MemoryError" in await output_of(bench, terminals, greedy, target="box")


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
async def test_it_runs_as_nobody_in_a_workspace_of_its_own(shelled: Shelled, terminals: Terminals) -> None:
    async with shelled() as bench:
        seen = await output_of(
            bench,
            terminals,
            "id -u; id -G; pwd; touch mine && ls -ld . ; ls ~/mine; "
            "cat /proc/$PPID/environ; cat /etc/shadow; echo e''nd",
        )
        nobody = pwd.getpwnam("nobody")
        assert re.search(rf"\r\n{nobody.pw_uid}\r\n{nobody.pw_gid}\r\n", seen), seen
        assert "drwx------" in seen
        assert re.search(r"\r\n/\S+/mine\r\n", seen), seen  # HOME is the same folder, and can be reached
        assert seen.count("Permission denied") == 2


async def test_b56_the_last_words_of_a_program_are_all_there(shelled: Shelled, terminals: Terminals) -> None:
    """`exec` of something that prints and exits at once; a pilot that reads to the end has every byte."""
    async with shelled() as bench:
        for _ in range(5):
            seen = await output_of(
                bench, terminals, 'exec python3 -c \'import sys; sys.stdout.write("hello" * 4096 + "end")\''
            )
            assert seen.replace("\r\n", "").endswith("hello" * 4096 + "end")
