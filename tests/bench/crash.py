"""Row e: a worker, or all of its host, dies in mid stream: when the followers are told, and when the run goes on."""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from runs.conf import limits
from tests.bench.bench import Bench
from tests.bench.client import Subscription, subscribe, upgrade
from tests.bench.figures import Figure, points
from tests.bench.log import Log
from tests.bench.probe import kill_to_wait_seconds, until
from tests.bench.runs import TERMINAL, Run, ended
from tests.bench.site import children_of

MUST_BE_TOLD_MS = {"p50": 250.0}
MUST_GO_ON_MS = {"p50": 1000.0}
MUST_MISS_A_HOST_MS = {"p50": 6000.0}
RATE = 50.0
KILL_AFTER_DELTAS = 20
BREATHER_SECONDS = 11.0  # a worker that lives for less than 10 s is started again later and later
WORKER = re.compile(rb'"type":"claim.started".*?"worker":"[^"]*:(\d+):[0-9a-f]+"')


@dataclass
class Claims:
    """Whose claims a follower is told of, and what comes after a kill."""

    log: Log = field(default_factory=lambda: Log(watch=TERMINAL))
    pids: list[int] = field(default_factory=list)
    killed_at: float = 0.0
    told_at: float = 0.0
    went_on_at: float = 0.0

    @property
    def told_after(self) -> float:
        """Seconds from the kill to its word."""
        return self.told_at - self.killed_at

    @property
    def went_on_after(self) -> float:
        """Seconds from the kill to the next text."""
        return self.went_on_at - self.killed_at

    @property
    def is_exact(self) -> bool:
        """Nothing was lost, doubled or out of order, to the end."""
        return not self.log.problems and "run.cancelled" in self.log.arrivals

    def take(self, message: bytes) -> None:
        """Take one message."""
        self.log.take(message)
        now = time.time()
        self.pids += [int(pid) for pid in WORKER.findall(message)]
        if self.killed_at and not self.told_at and b'"type":"claim.lost"' in message:
            self.told_at = now
        if self.told_at and not self.went_on_at and len(self.pids) > 1 and b'"type":"text.delta"' in message:
            self.went_on_at = now


async def killed_worker(bench: Bench) -> AsyncIterator[Figure]:
    """Two workers with parents of their own; the one that carries the run is killed, the other takes it."""
    runs: list[Claims] = []
    with bench.site.another_worker():
        for number in range(bench.scale.kills):
            if number:
                await asyncio.sleep(BREATHER_SECONDS)
            runs.append(await _kill(bench))
    async with bench.client.following(await bench.client.create(n=1), Log()) as follower:
        await ended(follower)  # the site's own worker is back: what is measured next needs it
    told, went_on = [run.told_after for run in runs], [run.went_on_after for run in runs]
    floor = points(kill_to_wait_seconds(20))
    for row, what, found, must in (
        ("e.noticed", "worker SIGKILL -> its follower is told", told, MUST_BE_TOLD_MS),
        ("e.goes_on", "worker SIGKILL -> the next text of the run, by another worker", went_on, MUST_GO_ON_MS),
    ):
        yield Figure(row=row, what=what, unit="ms", ours=points(found), must=must, baseline=floor,
                     baseline_is="kill -> waitpid here", samples=len(found),
                     is_exact=all(run.is_exact for run in runs))  # fmt: skip


async def lost_host(bench: Bench) -> AsyncIterator[Figure]:
    """A worker and the parent that would have seen it die are gone at once: only the lease tells."""
    runs: list[Claims] = []
    for _ in range(bench.scale.lost_hosts):
        with bench.site.another_worker() as parent:
            runs.append(await _kill(bench, parent.pid))
    told = points([run.told_after for run in runs])
    lease = {"p50": 1e3 * limits().lease_seconds}
    yield Figure(row="e.lost", what="host lost -> its follower is told", unit="ms", ours=told,
                 must=MUST_MISS_A_HOST_MS, baseline=lease, baseline_is="the lease", samples=len(runs),
                 is_exact=all(run.is_exact for run in runs),
                 more={"goes_on": points([run.went_on_after for run in runs])})  # fmt: skip


async def _kill(bench: Bench, parent: int | None = None) -> Claims:
    """Kill who carries a run: any worker, or this parent with its worker, which dies with it."""
    run, claims, follower = await _carried(bench, parent)
    await until(lambda: run.probe.deltas >= KILL_AFTER_DELTAS, 60, "the model to stream")
    claims.killed_at = time.time()
    os.kill(parent or claims.pids[-1], signal.SIGKILL)
    await until(lambda: claims.went_on_at, 60, "the run to go on")
    await bench.client.cancel(run)
    await ended(follower)
    return claims


async def _carried(bench: Bench, parent: int | None) -> tuple[Run, Claims, Subscription]:
    """Start runs until one is carried by a worker of this parent; the others are stopped."""
    address = bench.client.address
    while True:
        run, claims = await bench.client.create(n=10**6, rate=RATE), Claims()
        follower = await subscribe(address, upgrade(address, run.path()), claims.take)
        await until(lambda claims=claims: claims.pids, 60, "a worker to claim the run")
        if parent is None or claims.pids[-1] in children_of(parent):
            return run, claims, follower
        await bench.client.cancel(run)
        await ended(follower)
