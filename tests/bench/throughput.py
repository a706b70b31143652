"""Row f: small runs a second over HTTP, and durable steps a second of one run and of fifty."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.bench.bench import Bench
from tests.bench.client import Http, subscribe
from tests.bench.cost import Meter
from tests.bench.figures import Figure
from tests.bench.log import Log
from tests.bench.runs import API, TERMINAL, Run, ended

IN_FLIGHT = 16
MUST_RUNS = {"per_second": 120.0}
MANY = 50
FLOOR = "authenticated POSTs that commit one row, same server process, as many in flight"


async def whole_runs(bench: Bench) -> AsyncIterator[Figure]:
    """Create, stream one token, end: each by a request whose answer is the run's stream."""
    exact: list[bool] = []

    async def one(_http: Http) -> None:
        body, _probe = bench.client.body(n=1)
        log = Log(watch=TERMINAL)
        request = bench.client.address.request("POST", API, body, Accept="text/event-stream")
        await ended(await subscribe(bench.client.address, request, log.take))
        exact.append(not log.problems and "run.completed" in log.arrivals)

    meter = Meter(bench)
    before = meter.seconds()
    ours = await _per_second(bench, bench.scale.runs, one)
    cost = meter.milliseconds_each(before, bench.scale.runs)
    before = meter.seconds()
    floor = await _floor(bench)
    floor_cost = meter.milliseconds_each(before, bench.scale.runs)
    yield Figure(
        row="f.runs", what=f"runs a second, {IN_FLIGHT} in flight", unit="runs/s", ours={"per_second": ours},
        must=MUST_RUNS, baseline={"per_second": floor}, baseline_is=FLOOR, samples=len(exact),
        more_is_better=True, is_exact=all(exact), more={"cpu_ms": cost, "baseline_cpu_ms": floor_cost},
    )  # fmt: skip


async def durable_steps(bench: Bench) -> AsyncIterator[Figure]:
    """Steps that call nothing: each is a commit of its own, in order."""
    for runs, steps in ((1, bench.scale.steps), (MANY, max(1, bench.scale.steps // 10))):
        began = time.time()
        logs = [Log(watch=TERMINAL) for _ in range(runs)]
        await asyncio.gather(*(_steps(bench, steps, log) for log in logs))
        taken = time.time() - began
        yield Figure(
            row=f"f.steps.{runs}", what=f"durable steps a second, {runs} run(s)", unit="steps/s",
            ours={"per_second": round(runs * steps / taken, 1)}, must={},
            baseline={"per_second": await _floor(bench)}, baseline_is=FLOOR, samples=runs * steps,
            more_is_better=True, is_exact=all(not log.problems and "run.completed" in log.arrivals for log in logs),
        )  # fmt: skip


async def _steps(bench: Bench, steps: int, log: Log) -> None:
    http = Http(bench.client.address)
    body, probe = bench.client.body(n=0, steps=steps)
    answer = await http.call("POST", API, body)
    http.close()
    run = Run(answer["id"], answer["stream_id"], probe)
    async with bench.client.following(run, log) as follower:
        await ended(follower)


async def _floor(bench: Bench) -> float:
    async def one(http: Http) -> None:
        await http.call("POST", "/bench/floor", {"text": "one row"})

    return await _per_second(bench, bench.scale.runs, one)


async def _per_second(bench: Bench, times: int, do: Callable[[Http], Awaitable[None]]) -> float:
    left = times

    async def work() -> None:
        nonlocal left
        http = Http(bench.client.address)
        while left > 0:
            left -= 1
            await do(http)
        http.close()

    began = time.time()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return round(times / (time.time() - began), 1)
