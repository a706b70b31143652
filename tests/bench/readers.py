"""Row b, the readers that are no trouble-free ones: some come and go, some stop reading."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.bench.bench import Bench
from tests.bench.figures import Figure, points
from tests.bench.log import Log
from tests.bench.probe import memory_bytes, until
from tests.bench.runs import TERMINAL, Run, ended

WHOLE_RATE, WHOLE_EVENTS_PER_FOLLOWER = 3000.0, 150
STUCK_RATE, STUCK_PAD_BYTES = 2000.0, 2000
MUST_MEGABYTES = 2.0
SAMPLE_SECONDS = 0.05


async def whole(bench: Bench) -> AsyncIterator[Figure]:
    """Half of the followers are cut at random and come back with their cursor: what each got in the end."""
    count = bench.scale.cut_followers
    n = count * WHOLE_EVENTS_PER_FOLLOWER
    run = await bench.client.create(n=n, rate=WHOLE_RATE)
    logs = [Log(watch=TERMINAL) for _ in range(count)]
    connections = await asyncio.gather(
        *(_stay(bench, run, log) if i % 2 else _come_and_go(bench, run, log) for i, log in enumerate(logs))
    )
    head = (await bench.client.get(run))["head_seq"]
    problems = [problem for log in logs for problem in log.problems]
    wrong = sum(bool(log.problems) or log.last != head or log.count != head for log in logs)
    yield Figure(
        row="b.whole",
        what=f"followers that did not get each of {head} events once and in order, of {count}",
        unit="followers",
        ours={"wrong": float(wrong)},
        must={"wrong": 0.0},
        samples=head * count,
        is_exact=not problems,
        more={"connections": sum(connections), "problems": problems[:5]},
    )


async def _stay(bench: Bench, run: Run, log: Log) -> int:
    async with bench.client.following(run, log) as follower:
        await ended(follower)
    return 1


async def _come_and_go(bench: Bench, run: Run, log: Log) -> int:
    connections = 0
    while not log.arrivals:
        connections += 1
        async with bench.client.following(run, log, after=f"{run.stream_id}:{log.last}") as follower:
            await asyncio.wait([follower.closed], timeout=random.uniform(0.02, 0.3))
    return connections


async def stuck(bench: Bench) -> AsyncIterator[Figure]:
    """Readers that stop reading beside one that does not: what each costs the whole web process in memory."""
    count = bench.scale.stuck_readers
    await _load(bench, 0)  # the process has its working size after this
    alone = await _load(bench, 0)
    load = await _load(bench, count)
    each = (load.peak - alone.peak) / count / 1e6
    yield Figure(
        row="b.stuck",
        what=f"memory of the web process for each of {count} readers that stopped reading",
        unit="MB",
        ours={"each": round(max(0.0, each), 3), "process": round(load.peak / 1e6, 1)},
        must={"each": MUST_MEGABYTES},
        baseline={"process": round(alone.peak / 1e6, 1)},
        baseline_is="the same load with the good reader alone",
        samples=count,
        is_exact=not load.good.problems and load.is_whole,
        more={
            "sent_mb": round(_stuck_events(bench) * STUCK_PAD_BYTES / 1e6, 1),
            "stuck_had_of_it": load.had,
            "good_reader_delay": points(load.delays),
            "good_reader_delay_alone": points(alone.delays),
            "run_seconds": round(load.seconds, 2),
            "run_seconds_alone": round(alone.seconds, 2),
        },
    )


def _stuck_events(bench: Bench) -> int:
    return round(STUCK_RATE * bench.scale.stuck_seconds)


@dataclass(frozen=True)
class Load:
    """What a run with stuck readers did.

    peak: bytes of the web process; had: the share that the stuck had received; seconds: from the first event to the
    last; delays: of the good reader since the others were stuck; is_whole: each of them came back with its cursor and
    got the rest.
    """

    peak: int
    good: Log
    delays: list[float]
    had: float
    is_whole: bool
    seconds: float


async def _load(bench: Bench, count: int) -> Load:
    """Run once with so many stuck readers."""
    run = await bench.client.create(n=_stuck_events(bench), rate=STUCK_RATE, pad=STUCK_PAD_BYTES)
    good = Log(wants_delays=True, watch=TERMINAL)
    logs = [Log(watch=TERMINAL) for _ in range(count)]
    peak = 0
    async with bench.client.following(run, good) as follower:
        stuck = [await bench.client.follow(run, log) for log in logs]
        await until(lambda: all(log.last for log in logs), 30, "the readers to get something")
        for one in stuck:
            one.stop_reading()
        since = time.time()
        while not follower.closed.done():
            peak = max(peak, memory_bytes(bench.site.web_pid))
            await asyncio.wait([follower.closed], timeout=SAMPLE_SECONDS)
    had = sum(one.received_bytes for one in stuck) / max(1, count * follower.received_bytes)
    for one in stuck:
        one.cut()
    for log in logs:
        async with bench.client.following(run, log, after=f"{run.stream_id}:{log.last}") as again:
            await ended(again)
    is_whole = not any(log.problems or log.last != good.last for log in logs)
    delays = [seconds for made_at, seconds in good.delays if made_at >= since]
    return Load(peak, good, delays, round(had, 3), is_whole, good.last_at - good.first_at)
