"""Shells that end in every way leave nothing over: no process, no file that is open, no row that is."""

import asyncio
import contextlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psutil

from streaming.server import THREADS
from tests.bench.shells import Ours
from tests.chaos.faults import kill_worker
from tests.chaos.shells.proof import Found, Size
from tests.chaos.shells.seats import SECONDS, Shell, a_pilot, host_of, leave, open_shell
from tests.chaos.site import Site, uuid_of
from tests.stack import wait_until
from tools.processes.terminals.host import socket_of

WAYS = {  # what is done, and what the run then came to
    "exit": ("completed", None),
    "stop": ("cancelled", "user"),
    "grace": ("cancelled", "client_gone"),
    "kill of its program": ("completed", None),
    "deadline": ("cancelled", "deadline"),
    "kill of its ward": ("failed", None),
    "kill of its worker": ("completed", None),
}
WORKER_FILES = 12  # that a worker may open at its first work, and keep: connections to its pool and to Redis
OPEN = """
select 'operations that are open' as what, count(*) from runs_operation
  where run_id = any(%(runs)s) and state in ('intended', 'dispatched', 'unknown')
union all select 'steps that are open', count(*) from runs_step where run_id = any(%(runs)s) and state = 'open'
union all select 'live pilots', count(*) from runs_controlconnection where run_id = any(%(runs)s) and is_live
union all select 'shells without an end', count(*) from runs_shell where run_id = any(%(runs)s) and ended_at is null"""


def many(site: Site, size: Size) -> Found:
    """Show it for so many."""
    found, came_to = Found(), Counter[str]()
    site.whole()
    _ask_at_once(site)
    before = _files(site)
    shells: list[Shell] = []
    while len(shells) < size.sessions:
        shells += _round(site, size, min(size.at_once, size.sessions - len(shells)), found, came_to)
    runs = [uuid_of(shell.run) for shell in shells]
    wait_until(lambda: not any(_open_rows(site, runs).values()), seconds=SECONDS, what="the end of every row")
    wait_until(lambda: not _names(shells), seconds=SECONDS, what="the end of every note and socket")
    found.must(not _left(shells), "processes are left")
    may_grow = {"host": 0, "web": 4, "worker": WORKER_FILES + size.at_once}  # the books of so many jobs at once
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not _grown(before, _files(site), may_grow), seconds=SECONDS / 4, what="closed files")
    after = _files(site)
    found.must(not _grown(before, after, may_grow), f"files are left open: {after}")
    found.facts |= {"shells": len(shells), **came_to, "files": f"{before} -> {after}"}
    return found


def _round(site: Site, size: Size, count: int, found: Found, came_to: Counter[str]) -> list[Shell]:
    site.whole()
    ways = sorted((list(WAYS)[number % len(WAYS)] for number in range(count)), key="deadline".__eq__)
    shells = [open_shell(site, **_body(way, size)) for way in ways]
    asyncio.run(_end_all(site, list(zip(shells, ways, strict=True))))
    for shell, way in zip(shells, ways, strict=True):
        site.stack.wait(shell.run, seconds=2 * SECONDS)
        row = shell.row()
        came_to[row["status"]] += 1
        found.must((row["status"], row["cancel_reason"]) == WAYS[way], f"{way}: {row['status']} {row['cancel_reason']}")
        found.wrong += [f"{way}: {broken}" for broken in site.broken(shell.run)]
    return shells


def _body(way: str, size: Size) -> dict[str, object]:
    if way == "grace":
        return {"on_disconnect": {"grace_s": 0}}
    return {"on_disconnect": {"grace_s": 600}} | ({"deadline_s": size.deadline_seconds} if way == "deadline" else {})


async def _end_all(site: Site, shells: list[tuple[Shell, str]]) -> None:
    """Each has a pilot, and something that would outlive it; the worker of one is killed while others end."""
    pilots = await asyncio.gather(*(a_pilot(shell) for shell, _ in shells))
    for pilot in pilots:
        pilot.type(b"(trap '' TERM HUP; setsid sleep 31337) & echo be''gun\r")
    await asyncio.gather(*(pilot.until(b"begun") for pilot in pilots))
    for (shell, way), pilot in zip(shells, pilots, strict=True):
        _end(site, shell, way, pilot)
    is_killed = False
    for (shell, way), pilot in zip(shells, pilots, strict=True):
        if way == "kill of its worker":
            if not is_killed:
                kill_worker(site, shell.run)
                is_killed = True
            pilot.type(b"exit 0\r")
            await pilot.until(b"exit")
    await leave(*pilots)


def _end(site: Site, shell: Shell, way: str, pilot: Ours) -> None:
    if way == "exit":
        pilot.type(b"exit 0\r")
    elif way == "stop":
        site.http(lambda: site.stack.client.post(f"/shells/{shell.id}/terminate"))
    elif way == "kill of its program":
        pilot.type(b"kill -9 $$\r")
    elif way == "kill of its ward":
        shell.ward().kill()


def _files(site: Site) -> dict[str, int]:
    parts = site.whole()
    workers = [worker.num_fds() for worker in parts["runs.execution.worker_main"]]
    return {"host": host_of(site).num_fds(), "web": parts["streaming.server"][0].num_fds(), "worker": max(workers)}


def _grown(before: dict[str, int], now: dict[str, int], may_grow: dict[str, int]) -> bool:
    return any(now[what] > before[what] + most for what, most in may_grow.items())


def _ask_at_once(site: Site) -> None:
    """Let each thread of the web server open its connection to the database."""
    with ThreadPoolExecutor(2 * THREADS) as pool:
        for answer in pool.map(lambda _: site.stack.client.get("/shells"), range(4 * THREADS)):
            assert answer.status_code == 200, answer.text


def _open_rows(site: Site, runs: list[UUID]) -> dict[str, int]:
    rows = site.database(lambda connection: connection.execute(OPEN, {"runs": runs}).fetchall())
    return {row["what"]: row["count"] for row in rows}


def _left(shells: list[Shell]) -> list[int]:
    keys, marked = {shell.id for shell in shells}, psutil.process_iter(["environ"])
    return [one.pid for one in marked if (one.info["environ"] or {}).get("OUTLIVE_WARD") in keys]


def _names(shells: list[Shell]) -> list[str]:
    """Return what the folder of terminals still has of them, but for the last screens."""
    begun = [socket_of(shell.folder, shell.id).removesuffix(".sock") for shell in shells]
    names = (begin + ending for begin in begun for ending in (".sock", ".json"))
    return [name for name in names if os.path.exists(name)]
