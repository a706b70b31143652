"""Row g: what a follower costs that only waits, and what thousands of them do to a hundred who are told something."""

import asyncio
import contextlib
import re
import resource
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import redis.asyncio

from tests.bench.bench import Bench
from tests.bench.client import Http, Subscription, subscribe, upgrade
from tests.bench.fanout import delays_of_ours
from tests.bench.figures import Figure, median_points
from tests.bench.log import Log
from tests.bench.probe import until
from tests.bench.runs import API, Run

MUST_KILOBYTES = {"socket": 32.0}
AT_ONCE = 16  # connects in flight
WARM_UP = 100  # threads and database connections of the process grow with the first ones only
REPETITIONS = 3
SETTLE_SECONDS = 2.0
PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
SESSIONS = "select count(*) from pg_stat_activity where datname = current_database()"

type Open = Callable[[], Awaitable[Subscription]]


async def kilobytes_each(bench: Bench) -> AsyncIterator[Figure]:
    """Memory of the web process (PSS) for each follower of a run that says nothing."""
    count = bench.scale.idle
    run = await bench.client.create(n=1, hold_at=0)
    key = uuid.uuid4().hex
    await Http(bench.reference).call("POST", "/runs", {"key": key, "n": 1, "rate": 0})

    async def bare() -> Subscription:
        return await subscribe(bench.reference, upgrade(bench.reference, f"/ws/{key}"), lambda _: None)

    before = await _connections(bench)
    bare_each, opened = await _each(bench.reference_pid, bare, count)
    # All stay open: what one kind gave back would be there for the next.
    for way, open_one in (("socket", lambda: _socket(bench, run)), ("sse", lambda: _sse(bench, run))):
        each, held = await _each(bench.site.web_pid, open_one, count)
        opened += held
        yield Figure(
            row=f"g.{way}", what=f"memory of the web process for each of {count} idle followers ({way})", unit="KB",
            ours={"each": each}, must={"each": MUST_KILOBYTES[way]} if way in MUST_KILOBYTES else {},
            baseline={"each": bare_each}, baseline_is="bare server, sockets", samples=count,
            more={"connections_before": before, "connections_with_them": await _connections(bench)},
        )  # fmt: skip
    for one in opened:
        one.cut()
    run.probe.release()


async def beside_a_crowd(bench: Bench) -> AsyncIterator[Figure]:
    """Followers of a run at 100 events a second, alone and beside thousands of idle sockets of other people's runs."""
    _, _, told = bench.scale.followers
    crowd = bench.scale.crowd - told
    _allow_files(2 * bench.scale.crowd)
    runs = [await bench.client.create(n=1, hold_at=0) for _ in range(bench.scale.crowd_runs)]
    alone = [await delays_of_ours(bench, told) for _ in range(REPETITIONS)]
    pss_before, began = proportional_kilobytes(bench.site.web_pid), time.monotonic()
    idle = await _open_many(lambda number: _socket(bench, runs[number % len(runs)]), crowd)
    took = time.monotonic() - began
    beside = [await delays_of_ours(bench, told) for _ in range(REPETITIONS)]
    pss = proportional_kilobytes(bench.site.web_pid)
    still_open = sum(not one.closed.done() for one in idle)
    for one in idle:
        one.cut()
    for run in runs:
        run.probe.release()
    yield Figure(
        row="g.crowd", what=f"model -> follower, 100 events/s, {told} followers beside {crowd} idle sockets", unit="ms",
        ours=median_points([found for found, _ in beside]), must={},
        baseline=median_points([found for found, _ in alone]), baseline_is="the same followers alone",
        samples=sum(len(found) for found, _ in beside), repetitions=len(beside),
        is_exact=still_open == crowd and all(is_exact for _, is_exact in alone + beside),
        more={
            "connect_seconds": round(took, 1), "still_open": still_open, "process_mb": round(pss / 1024, 1),
            "kb_each": round((pss - pss_before) / crowd, 1),
        },
    )  # fmt: skip


async def _socket(bench: Bench, run: Run) -> Subscription:
    log = Log()
    made = await bench.client.follow(run, log)
    await until(lambda: log.control("caught_up"), 60, "a follower to catch up")
    return made


async def _sse(bench: Bench, run: Run) -> Subscription:
    heard = asyncio.Event()

    def take(lines: bytes) -> None:
        if b"event: caught_up" in lines:
            heard.set()

    request = bench.client.address.request("GET", f"{API}/{run.id}/events", Accept="text/event-stream")
    made = await subscribe(bench.client.address, request, take)
    async with asyncio.timeout(60):
        await heard.wait()
    return made


async def _each(pid: int, open_one: Open, count: int) -> tuple[float, list[Subscription]]:
    """Open a few, then many; returns by how many KB each of the many has made the process larger, and all of them."""
    few = await _open_many(lambda _: open_one(), min(count, WARM_UP))
    await asyncio.sleep(SETTLE_SECONDS)
    before = proportional_kilobytes(pid)
    many = await _open_many(lambda _: open_one(), count)
    await asyncio.sleep(SETTLE_SECONDS)
    return round((proportional_kilobytes(pid) - before) / count, 1), few + many


async def _open_many(open_one: Callable[[int], Awaitable[Subscription]], count: int) -> list[Subscription]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Subscription:
        async with room:
            return await open_one(number)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def _connections(bench: Bench) -> dict[str, int]:
    """Count the connections of all our processes to PostgreSQL and Redis, without the ones that count."""
    connection = await asyncpg.connect(bench.database_url)
    sessions = await connection.fetchval(SESSIONS) - 1
    await connection.close()
    async with contextlib.aclosing(redis.asyncio.from_url(bench.redis_url)) as client:
        clients = len(await client.client_list()) - 1
    return {"postgresql": sessions, "redis": clients}


def proportional_kilobytes(pid: int) -> int:
    """Read the proportional memory of a process in KB."""
    found = PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found is not None
    return int(found.group(1))


def _allow_files(count: int) -> None:
    """Let this process, the client, have so many sockets. Raises: ValueError where the system does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
