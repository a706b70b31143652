"""Row c: from a stop to `run.cancelled`, which must never come before the death of what ran."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.bench.bench import Bench
from tests.bench.client import Http, Subscription
from tests.bench.figures import Figure, median_points, points
from tests.bench.log import Log
from tests.bench.probe import Deaths, kill_to_wait_seconds, tree_of, until
from tests.bench.runs import API, TERMINAL, Run, ended

MUST_ABOVE_FLOOR_MS = {"p50": 3.0, "p99": 10.0}
MUST_ABOVE_GRACE_MS = {"p99": 25.0}
GRACE_SECONDS = 3.0  # tools/builtin/command.py, TERM_GRACE_SECONDS
STAGGER_SECONDS = 0.1
SETTLE_SECONDS = 0.05
STREAM_RATE = 500.0
QUEUED_AT_ONCE = 10


@dataclass
class Stops:
    """What one repetition saw, in seconds. early: ends that were told before the death."""

    cancelled: list[float] = field(default_factory=list)
    replied: list[float] = field(default_factory=list)
    died: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    early: int = 0
    wrong: int = 0

    def note(self, began: float, replied_at: float, log: Log, died_at: float | None) -> None:
        """Take one stop: when it was asked, answered, seen by the follower, and when the process died."""
        self.replied.append(replied_at - began)
        self.wrong += bool(log.problems) or "run.cancelled" not in log.arrivals
        told_at = log.arrivals.get("run.cancelled", time.time())
        self.cancelled.append(told_at - began)
        if died_at is not None:
            self.died.append(died_at - began)
            self.told.append(told_at - died_at)
            self.early += told_at < died_at


async def of_a_process(bench: Bench) -> AsyncIterator[Figure]:
    """A command that ends at TERM."""
    repetitions = []
    for _ in range(bench.scale.repetitions):
        stops = Stops()
        for _ in range(bench.scale.stops):
            run, log = await bench.client.create(n=0, tool="sleep"), Log(watch=TERMINAL)
            async with bench.client.following(run, log) as follower:
                await until(lambda run=run: run.probe.child, 30, "the command to run")
                await asyncio.sleep(SETTLE_SECONDS)
                deaths = Deaths(tree_of(run.id))
                began, replied_at = await _cancel(bench, run)
                await ended(follower)
                stops.note(began, replied_at, log, deaths.last_at)
        repetitions.append(stops)
    floor = points(kill_to_wait_seconds(bench.scale.stops * 2))
    yield _figure("c.process", "Stop -> run.cancelled, with a process", repetitions, floor, "kill -> waitpid here")


async def of_a_stream(bench: Bench) -> AsyncIterator[Figure]:
    """A model in the middle of its answer."""
    repetitions = []
    late: list[float] = []
    for _ in range(bench.scale.repetitions):
        stops = Stops()
        for _ in range(bench.scale.stops):
            run, log = await bench.client.create(n=10**6, rate=STREAM_RATE), Log(watch=TERMINAL)
            async with bench.client.following(run, log) as follower:
                await until(lambda run=run: run.probe.deltas >= 20, 30, "the model to stream")
                began, replied_at = await _cancel(bench, run)
                await ended(follower)
                stops.note(began, replied_at, log, None)
                late.append(max(0.0, run.probe.last_delta_at - began))
        repetitions.append(stops)
    floor = points(await _posts(bench))
    yield _figure("c.streaming", "Stop -> run.cancelled, while the model streams", repetitions, floor, POST,
                  last_delta=points(late))  # fmt: skip


async def of_a_queued_run(bench: Bench) -> AsyncIterator[Figure]:
    """A run that no worker has taken; all workers stand still."""
    repetitions = []
    for _ in range(bench.scale.repetitions):
        stops = Stops()
        for _ in range(-(-bench.scale.stops // QUEUED_AT_ONCE)):
            with bench.site.workers_stopped():
                for _ in range(min(QUEUED_AT_ONCE, bench.scale.stops)):
                    run, log = await bench.client.create(n=0), Log(watch=TERMINAL)
                    async with bench.client.following(run, log) as follower:
                        await until(lambda log=log: log.control("caught_up"), 30, "the follower")
                        began, replied_at = await _cancel(bench, run)
                        await ended(follower)
                        stops.note(began, replied_at, log, None)
        repetitions.append(stops)
    floor = points(await _posts(bench))
    yield _figure("c.queued", "Stop -> run.cancelled, no worker there", repetitions, floor, POST)


POST = "authenticated POST that commits one row, same server process"


async def _cancel(bench: Bench, run: Run) -> tuple[float, float]:
    began = time.time()
    await bench.client.cancel(run)
    return began, time.time()


async def _posts(bench: Bench) -> list[float]:
    taken = []
    for _ in range(bench.scale.stops * 2):
        began = time.time()
        await bench.client.floor()
        taken.append(time.time() - began)
    return taken


def _figure(row: str, what: str, stops: list[Stops], floor: dict[str, float], floor_is: str, **more: object) -> Figure:
    """Judge Stop -> run.cancelled against the floor; what belongs to it comes along."""
    parts = {"reply": [one.replied for one in stops]}
    if stops[0].died:
        parts |= {"death": [one.died for one in stops], "after_death": [one.told for one in stops]}
    return Figure(
        row=row,
        what=what,
        unit="ms",
        ours=median_points([one.cancelled for one in stops]),
        must={name: floor[name] + above for name, above in MUST_ABOVE_FLOOR_MS.items()},
        baseline=floor,
        baseline_is=floor_is,
        samples=sum(len(one.cancelled) for one in stops),
        repetitions=len(stops),
        is_exact=not any(one.early or one.wrong for one in stops),
        more={name: median_points(found) for name, found in parts.items()}
        | {"told_before_death": sum(one.early for one in stops)}
        | more,
    )


async def of_trees(bench: Bench) -> AsyncIterator[Figure]:
    """Commands that ignore TERM, alone and with grandchildren in sessions of their own: dead after the grace."""
    for tool in ("stubborn", "setsid", "stubborn_setsid"):
        grace = GRACE_SECONDS if "stubborn" in tool else 0.0
        logs = [Log(watch=TERMINAL) for _ in range(bench.scale.trees)]
        async with contextlib.AsyncExitStack() as stack:
            trees = [await stack.enter_async_context(_running_tree(bench, tool, log)) for log in logs]
            await asyncio.sleep(1.0)  # the start of the last one disturbs no stop
            found = await asyncio.gather(*(tree.stop(bench, STAGGER_SECONDS * i) for i, tree in enumerate(trees)))
        told = [seconds for _, seconds in found]
        yield Figure(
            row=f"c.{tool}",
            what=f"Stop -> the whole tree dead, beyond the grace of {grace:.0f} s",
            unit="ms",
            ours=points([died - grace for died, _ in found]),
            must=MUST_ABOVE_GRACE_MS,
            baseline=points(kill_to_wait_seconds(bench.scale.trees)),
            baseline_is="kill -> waitpid here",
            samples=len(found),
            is_exact=min(told) >= 0 and not any(log.problems or "run.cancelled" not in log.arrivals for log in logs),
            more={"after_death": points(told), "told_before_death": sum(seconds < 0 for seconds in told)},
        )


@dataclass
class Tree:
    """A running command with all its descendants, and who follows its run."""

    run: Run
    log: Log
    follower: Subscription
    deaths: Deaths

    async def stop(self, bench: Bench, wait_seconds: float) -> tuple[float, float]:
        """Give the seconds from the stop to the last death, and from there to the follower's run.cancelled."""
        http = Http(bench.client.address)
        await asyncio.sleep(wait_seconds)
        began = time.time()
        await http.call("POST", f"{API}/{self.run.id}/cancel", {})
        await ended(self.follower)
        http.close()
        return self.deaths.last_at - began, self.log.arrivals["run.cancelled"] - self.deaths.last_at


@contextlib.asynccontextmanager
async def _running_tree(bench: Bench, tool: str, log: Log) -> AsyncIterator[Tree]:
    run = await bench.client.create(n=0, tool=tool)
    async with bench.client.following(run, log) as follower:
        await until(lambda: run.probe.child, 60, "the command to run")
        await asyncio.sleep(SETTLE_SECONDS)  # it is about to become `sleep`, and has no environment to find meanwhile
        yield Tree(run, log, follower, Deaths(tree_of(run.id)))
