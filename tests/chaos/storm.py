"""Many clients that come and go at random while runs emit and doorbells are lost, doubled and swapped.

    python -m tests.chaos.storm [--clients 500] [--runs 20] [--seconds 60]

Real web server, worker, supervisor, PostgreSQL and Valkey; `make storm` starts the last two. The list of each client
must be the stored one.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from runs.frames import encode
from tests.bench.runs import Client, Run
from tests.bench.site import Site, prepare, running_site
from tests.chaos.redis_proxy import redis_proxy
from tests.chaos.viewers import Events, Viewer

WAYS = ("socket", "acknowledging", "sse")
RATE = 10.0  # events a second of each run
LATE_SECONDS = 60.0  # for those who are still behind when the runs have ended
STORED = "select seq, data from runs_event where stream_id = $1 order by seq"


@dataclass(frozen=True)
class Storm:
    """How much. stay_seconds: how long a client stays at least and at most before it cuts its connection."""

    clients: int = 500
    runs: int = 20
    seconds: float = 60.0
    stay_seconds: tuple[float, float] = (1.0, 12.0)


@dataclass(frozen=True)
class Outcome:
    """What came of it. unequal: clients whose list is not the stored one; problems: what they saw, in words."""

    events: int
    connections: int
    unequal: int
    problems: list[str]
    doorbells: dict[str, int]
    controls: dict[str, int]
    seconds: float


async def rage(site: Site, storm: Storm, database_url: str, doorbells: Counter[str], *, seed: int = 1) -> Outcome:
    """Start the runs, let the clients come and go, and compare what each has with what is stored."""
    client, chance = Client(site), random.Random(seed)
    began = time.monotonic()
    runs = [await client.create(n=round(RATE * storm.seconds), rate=RATE) for _ in range(storm.runs)]
    client.http.close()

    def stay() -> float:
        return chance.uniform(*storm.stay_seconds)

    viewers = [
        Viewer(client.address, run.id, run.stream_id, way=WAYS[i % len(WAYS)], stay=stay)
        for i, run in zip(range(storm.clients), itertools.cycle(runs), strict=False)
    ]
    async with asyncio.timeout(storm.seconds + LATE_SECONDS), asyncio.TaskGroup() as group:
        for viewer in viewers:
            group.create_task(viewer.watch())
    stored = await _stored(runs, database_url)
    return Outcome(
        events=sum(viewer.events.count for viewer in viewers),
        connections=sum(viewer.connections for viewer in viewers),
        unequal=sum(not viewer.events.same_as(stored[viewer.stream_id]) for viewer in viewers),
        problems=[f"{viewer.way}: {problem}" for viewer in viewers for problem in viewer.problems],
        doorbells=dict(doorbells),
        controls=dict(sum((viewer.controls for viewer in viewers), Counter())),
        seconds=round(time.monotonic() - began, 1),
    )


async def _stored(runs: list[Run], database_url: str) -> dict[str, Events]:
    connection = await asyncpg.connect(database_url)
    found: dict[str, Events] = {}
    for run in runs:
        events = found[run.stream_id] = Events()
        for seq, data in await connection.fetch(STORED, UUID(hex=run.stream_id.removeprefix("st_"))):
            events.add(encode(seq, data))
    await connection.close()
    return found


def main(argv: list[str]) -> int:
    """Print what came of it as JSON. Returns 0 if every list is the stored one."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.storm", description=__doc__)
    parser.add_argument("--clients", type=int, default=Storm.clients)
    parser.add_argument("--runs", type=int, default=Storm.runs)
    parser.add_argument("--seconds", type=float, default=Storm.seconds)
    chosen = parser.parse_args(argv)
    storm = Storm(chosen.clients, chosen.runs, chosen.seconds)
    with redis_proxy(os.environ["REDIS_URL"]) as proxy, running_site(prepare(), REDIS_URL=proxy.url) as site:
        outcome = asyncio.run(rage(site, storm, os.environ["DATABASE_URL"], proxy.done))
    print(json.dumps({**vars(outcome), "problems": outcome.problems[:20]}, indent=1))
    return 1 if outcome.unequal or outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
