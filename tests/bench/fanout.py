"""Row b: one run to 1, 10 and 100 followers: the delay of an event, and how many are delivered a second."""

import asyncio
import itertools
import statistics
import time
import uuid
from collections.abc import AsyncIterator

from tests.bench.bench import Bench
from tests.bench.client import Http, Subscription, subscribe, upgrade
from tests.bench.figures import Figure, median_points
from tests.bench.log import Log
from tests.bench.probe import until
from tests.bench.runs import ended

RATE = 100.0
CONNECT_SECONDS = 2.0  # events that a hundred followers miss while they connect are not counted
MUST_DELAY_MS = {"few": {"p50": 1.7, "p99": 4.0}, "many": {"p50": 5.0, "p99": 20.0}}
MUST_RATE = (30_000.0, 85_000.0, 150_000.0)


async def delays(bench: Bench) -> AsyncIterator[Figure]:
    """At 100 events a second, from the model's own clock to the follower's."""
    few, _, many = bench.scale.followers
    for name, count in (("few", few), ("many", many)):
        repetitions = [await delays_of_ours(bench, count) for _ in range(bench.scale.repetitions)]
        baseline = [await _delays_of_reference(bench, count) for _ in range(bench.scale.repetitions)]
        samples = [found for found, _ in repetitions]
        yield Figure(
            row=f"b.delay.{count}",
            what=f"model -> follower, {RATE:.0f} events/s, {count} followers",
            unit="ms",
            ours=median_points(samples),
            must=MUST_DELAY_MS[name],
            baseline=median_points([found for found, _ in baseline]),
            baseline_is="bare server, one process, commits first",
            samples=sum(map(len, samples)),
            repetitions=len(samples),
            is_exact=all(is_exact for _, is_exact in repetitions + baseline),
        )


async def rates(bench: Bench) -> AsyncIterator[Figure]:
    """At full speed: events delivered a second, to all followers together, from the model's release to the end."""
    for count, must in zip(bench.scale.followers, MUST_RATE, strict=True):
        n = bench.scale.rate_events if count == 1 else max(100, bench.scale.rate_events // 4)
        ours = [await _rate_of_ours(bench, count, n) for _ in range(bench.scale.repetitions)]
        baseline = [await _rate_of_reference(bench, count, n) for _ in range(bench.scale.repetitions)]
        yield Figure(
            row=f"b.rate.{count}",
            what=f"events delivered at full speed to {count} followers",
            unit="events/s",
            ours={"median": round(statistics.median(rate for rate, _ in ours))},
            must={"median": must},
            baseline={"median": round(statistics.median(rate for rate, _ in baseline))},
            baseline_is="bare server, one process, commits first",
            samples=n * count,
            repetitions=len(ours),
            more_is_better=True,
            is_exact=all(is_exact for _, is_exact in ours + baseline),
        )


async def delays_of_ours(bench: Bench, count: int) -> tuple[list[float], bool]:
    """Follow one run with so many; returns the delays of all, and whether nobody missed anything."""
    logs = [Log(wants_delays=True, watch=("run.completed",)) for _ in range(count)]
    run = await bench.client.create(n=_delay_events(bench), rate=RATE)
    followers = await asyncio.gather(*(bench.client.follow(run, log) for log in logs))
    await until(lambda: all(log.control("caught_up") for log in logs), 30, "the followers to catch up")
    since = time.time()
    await ended(*followers)
    return _delays_since(logs, since), _are_exact(logs)


async def _delays_of_reference(bench: Bench, count: int) -> tuple[list[float], bool]:
    logs = [Log(wants_delays=True) for _ in range(count)]
    key, followers = await _follow_reference(bench, logs, _delay_events(bench), RATE)
    since = time.time()
    await Http(bench.reference).call("POST", f"/release/{key}")
    await ended(*followers)
    return _delays_since(logs, since), _are_exact(logs)


async def _rate_of_ours(bench: Bench, count: int, n: int) -> tuple[float, bool]:
    logs = [Log(watch=("run.completed",)) for _ in range(count)]
    run = await bench.client.create(n=n, hold_at=0)
    followers = [await bench.client.follow(run, log) for log in logs]
    await until(lambda: all(log.control("caught_up") for log in logs), 30, "the followers to catch up")
    await asyncio.sleep(0.2)  # nothing of the connecting is left to be done
    began = time.time()
    run.probe.release()
    await ended(*followers)
    return n * count / (max(log.last_at for log in logs) - began), _are_exact(logs)


async def _rate_of_reference(bench: Bench, count: int, n: int) -> tuple[float, bool]:
    logs = [Log() for _ in range(count)]
    key, followers = await _follow_reference(bench, logs, n, 0)
    began = time.time()
    await Http(bench.reference).call("POST", f"/release/{key}")
    await ended(*followers)
    return n * count / (max(log.last_at for log in logs) - began), _are_exact(logs)


async def _follow_reference(bench: Bench, logs: list[Log], n: int, rate: float) -> tuple[str, list[Subscription]]:
    key = uuid.uuid4().hex
    await Http(bench.reference).call("POST", "/runs", {"key": key, "n": n, "rate": rate})
    request = upgrade(bench.reference, f"/ws/{key}")
    followers = [await subscribe(bench.reference, request, log.take) for log in logs]
    await asyncio.sleep(0.2)
    return key, followers


def _delay_events(bench: Bench) -> int:
    return round(RATE * (bench.scale.delay_seconds + min(CONNECT_SECONDS, bench.scale.delay_seconds)))


def _delays_since(logs: list[Log], since: float) -> list[float]:
    found = itertools.chain.from_iterable(log.delays for log in logs)
    return [seconds for made_at, seconds in found if made_at >= since]


def _are_exact(logs: list[Log]) -> bool:
    """Nobody missed anything, and all came equally far."""
    return not any(log.problems for log in logs) and len({(log.last, log.count) for log in logs}) == 1
