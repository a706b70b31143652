"""Row a: from the request that creates a run to the first token of its model."""

import asyncio
import random
import time
from collections.abc import AsyncIterator

from tests.bench.bench import Bench
from tests.bench.client import Http, subscribe
from tests.bench.figures import Figure, median_points, points
from tests.bench.log import Log
from tests.bench.runs import API, Client, ended

MUST_ABOVE_FLOOR_MS = {"p50": 5.0, "p99": 12.0}
GAP_SECONDS = 0.02


async def first_token(bench: Bench) -> AsyncIterator[Figure]:
    """One run at a time on an idle system; before each, the floor, on a fresh connection as well."""
    for _ in range(bench.scale.warm_up):
        await _floor(bench.client)
        await _start(bench.client)
    starts: list[list[float]] = []
    floors: list[list[float]] = []
    heads: list[float] = []
    is_exact = True
    for _ in range(bench.scale.repetitions):
        starts.append([])
        floors.append([])
        for _ in range(bench.scale.starts):
            floors[-1].append(await _floor(bench.client))
            await _pause()
            seconds, head, log = await _start(bench.client)
            starts[-1].append(seconds)
            heads.append(head)
            is_exact = is_exact and not log.problems and "run.completed" in log.arrivals
            await _pause()
    ours, floor = median_points(starts), median_points(floors)
    yield Figure(
        row="a",
        what="create (POST, answered by a stream) -> first token",
        unit="ms",
        ours=ours,
        must={name: floor[name] + more for name, more in MUST_ABOVE_FLOOR_MS.items()},
        baseline=floor,
        baseline_is="authenticated POST that commits one row, same server process",
        samples=sum(map(len, starts)),
        repetitions=len(starts),
        is_exact=is_exact,
        more={"above_floor": {name: round(ours[name] - floor[name], 3) for name in ours}, "accepted": points(heads)},
    )


async def _pause() -> None:
    await asyncio.sleep(GAP_SECONDS * random.uniform(0.5, 1.5))  # not in step with any timer


async def _floor(client: Client) -> float:
    http = Http(client.address)
    began = time.time()
    await http.call("POST", "/bench/floor", {"text": "one row"})
    taken = time.time() - began
    http.close()
    return taken


async def _start(client: Client) -> tuple[float, float, Log]:
    """Give the seconds to the first token and to the head of the answer, and what came."""
    body, _probe = client.body(n=5)
    log = Log(watch=("text.delta", "run.completed"))
    request = client.address.request("POST", API, body, Accept="text/event-stream")
    began = time.time()
    stream = await subscribe(client.address, request, log.take)
    head = time.time() - began
    await ended(stream)
    return log.arrivals["text.delta"] - began, head, log
