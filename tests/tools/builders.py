"""What the tests of tools are built from: hosts, calls, permits, and a wait that does not guess."""

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil

from tools import JSON, Permit, ToolCall
from tools.processes.host import ProcessHost
from tools.scope import Scope, boottime

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


async def wait_until[T](look: Callable[[], T], *, seconds: float = 60.0) -> T:
    """Return the first true answer of `look`."""
    end = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < end, "It never came true."
        await asyncio.sleep(0.002)


def wait_until_now[T](look: Callable[[], T], *, seconds: float = 60.0) -> T:
    """The same without a loop."""
    return asyncio.run(wait_until(look, seconds=seconds))


def living(marker: str) -> list[int]:
    """Return the pids of living sleeps and shells (no zombies) that have `marker` among their arguments."""
    found = []
    for process in psutil.process_iter(["cmdline", "status", "name"]):
        facts = process.info
        if facts["status"] == psutil.STATUS_ZOMBIE or facts["name"] not in ("sleep", "setsid", "sh", "bash"):
            continue
        if any(marker in part for part in facts["cmdline"] or []):
            found.append(process.pid)
    return found


def a_marker() -> str:
    """Return a sleep of seconds that no other test uses: `sleep 31337.123` is found by its argument."""
    return f"31337.{uuid.uuid4().int % 10**9:09d}"


@contextlib.asynccontextmanager
async def a_host(**options: object) -> AsyncIterator[ProcessHost]:
    host = ProcessHost(**options)  # type: ignore[arg-type]
    try:
        yield host
    finally:
        await host.close()


def a_permit(*, key: str = "op_1", fence: int = 7, seconds: float = 2.0) -> Permit:
    return Permit(nonce=uuid.uuid4().hex, key=key, fence=fence, void_at=boottime() + seconds)


class Progress(list[JSON]):
    """Collects what a tool says while it runs."""

    async def __call__(self, data: JSON) -> None:
        self.append(data)


def a_call(
    *,
    workspace: Path = Path("/nonexistent"),
    settings: dict[str, str] | None = None,
    scope: Scope | None = None,
    permit: Permit | None = None,
    processes: ProcessHost | None = None,
    progress: Progress | None = None,
    operation_key: str = "run_1/send#1",
    user: tuple[int, int] | None = None,
) -> ToolCall:
    return ToolCall(
        run_id="run_1",
        step_id="st_1",
        tenant_id="t_1",
        user_id="u_1",
        operation_key=operation_key,
        fence=7,
        permit=permit or a_permit(key=operation_key),
        scope=scope or Scope(),
        workspace=workspace,
        settings=settings or {},
        processes=processes or ProcessHost(),
        progress=progress if progress is not None else Progress(),
        user=user,
    )
