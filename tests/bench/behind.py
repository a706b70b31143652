"""Row d: a follower that comes back 10,000 events behind, and one whose cursor is older than what is kept."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator

import asyncpg

from tests.bench.bench import Bench
from tests.bench.client import Http, subscribe, upgrade
from tests.bench.figures import Figure, Points, points
from tests.bench.log import Log
from tests.bench.runs import TERMINAL, Run, ended

MUST_MS = {"p50": 50.0}
READS = 10
TRIM = """
with gone as (delete from runs_event where stream_id = $1 and seq < $2)
update runs_run set floor_seq = $2 where stream_id = $1"""


async def caught_up(bench: Bench) -> AsyncIterator[Figure]:
    """From the connection to the last event, of a run that has ended."""
    run, head = await _long_run(bench)
    times, is_exact = [], True
    for _ in range(READS):
        log = Log(watch=TERMINAL)
        began = time.time()
        async with bench.client.following(run, log, after=f"{run.stream_id}:0") as follower:
            await ended(follower)
        times.append(log.last_at - began)
        is_exact = is_exact and not log.problems and log.last == log.count == head
    yield Figure(
        row="d.behind",
        what=f"{head} events behind: connect -> the last one",
        unit="ms",
        ours=points(times),
        must=MUST_MS,
        baseline=await _reference(bench),
        baseline_is="bare server, pages of 5000 from the database",
        samples=READS,
        is_exact=is_exact,
    )


async def below_floor(bench: Bench) -> AsyncIterator[Figure]:
    """A cursor below the oldest kept event: it must be told, and get the state as a whole."""
    run, head = await _long_run(bench)
    floor = head // 2
    connection = await asyncpg.connect(bench.database_url)
    await connection.execute(TRIM, uuid.UUID(hex=run.stream_id.removeprefix("st_")), floor)
    await connection.close()
    times, is_exact = [], True
    for _ in range(READS):
        log = Log()
        began = time.time()
        async with bench.client.following(run, log, after=f"{run.stream_id}:3") as follower:
            await ended(follower)
        times.append(time.time() - began)
        is_exact = is_exact and _is_told(log, run, floor, head)
    yield Figure(
        row="d.floor",
        what="cursor below the floor: connect -> gap and snapshot",
        unit="ms",
        ours=points(times),
        must={},
        samples=READS,
        is_exact=is_exact,
    )


def _is_told(log: Log, run: Run, floor: int, head: int) -> bool:
    gap, snapshot = log.control("gap"), log.control("snapshot")
    if gap is None or snapshot is None or log.count:
        return False
    is_gap = (gap["reason"], gap["earliest_seq"]) == ("trimmed", floor)
    return is_gap and snapshot["cursor"] == f"{run.stream_id}:{head}"


async def _long_run(bench: Bench) -> tuple[Run, int]:
    """Make a run with that many events, and wait for its end. Returns it and its head."""
    run, log = await bench.client.create(n=bench.scale.behind), Log(watch=TERMINAL)
    async with bench.client.following(run, log) as follower:
        await ended(follower)
    await asyncio.sleep(0.2)
    return run, (await bench.client.get(run))["head_seq"]


async def _reference(bench: Bench) -> Points:
    http, key = Http(bench.reference), uuid.uuid4().hex
    await http.call("POST", "/runs", {"key": key, "n": bench.scale.behind, "rate": 0})
    await http.call("POST", f"/release/{key}")
    times = []
    for number in range(READS + 1):
        log = Log()
        began = time.time()
        follower = await subscribe(bench.reference, upgrade(bench.reference, f"/ws/{key}"), log.take)
        await ended(follower)
        assert not log.problems
        if number:  # the first one has waited for the run's end
            times.append(log.last_at - began)
    return points(times)
