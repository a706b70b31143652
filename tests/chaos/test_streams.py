"""Viewers of real streams while Redis is restarted, emptied and away, and while the web process is killed."""

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from runs.frames import encode
from tests.bench.client import Address
from tests.chaos.faults import SILENCE, let_ring, restart_service
from tests.chaos.site import Site, uuid_of
from tests.chaos.viewers import Events, Viewer
from tests.second_try import of_this_try
from tests.stack import wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
EACH_WAY = 2
WAYS = ("socket", "acknowledging", "sse") * EACH_WAY
COMPLETE_SECONDS = 60.0  # after the end of the run is stored
DOWN_SECONDS = 5.0
EVENTS, RATE = 160, 25.0
STORED = """
select e.seq, e.data from runs_event e join runs_run r on r.stream_id = e.stream_id where r.id = %s order by e.seq"""


class Watching:
    """Viewers of one run, in a thread of their own."""

    def __init__(self, site: Site, run: dict[str, str]) -> None:
        address = Address(site.stack.base_url, {"Authorization": f"Bearer {site.stack.token}"})
        self.viewers = [Viewer(address, run["id"], run["stream_id"], way=way) for way in WAYS]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True)
        self._stop = threading.Event()

    async def _watch(self) -> None:
        tasks = [asyncio.ensure_future(viewer.watch()) for viewer in self.viewers]
        while not self._stop.is_set() and not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self) -> "Watching":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def until(self, seq: int) -> None:
        """Return once each of them has this event."""
        wait_until(lambda: all(viewer.last >= seq for viewer in self.viewers), what=f"event {seq} at each viewer")

    def until_done(self) -> None:
        """Return once each of them has the last event."""
        wait_until(
            lambda: all(viewer.is_done for viewer in self.viewers), seconds=COMPLETE_SECONDS, what="the end everywhere"
        )


def stored(site: Site, run_id: str) -> Events:
    """Read what every viewer must have."""
    events = Events()
    for row in site.database(lambda connection: connection.execute(STORED, [uuid_of(run_id)]).fetchall()):
        events.add(encode(row["seq"], row["data"]))
    return events


def stream(site: Site, key: str) -> dict[str, str]:
    """Start a run that streams until it is released."""
    return site.stack.start("probe", {"key": key, "n": EVENTS, "rate": RATE, "hold_at": EVENTS - 1})


def restart(site: Site) -> None:
    restart_service(site, "redis", signal.SIGKILL)


def flush(site: Site) -> None:
    with contextlib.closing(site.redis()) as client:
        client.flushall()


def keep_down(site: Site) -> None:
    """Kill Redis whenever it has come up again, for a while."""
    give_up_at = time.monotonic() + DOWN_SECONDS
    while time.monotonic() < give_up_at:
        pid = json.loads((site.stack.state / "processes" / "redis.json").read_text())["pid"]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_back(site: Site) -> bool:
    with contextlib.closing(site.redis()) as client, contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False


@contextlib.contextmanager
def deaf(site: Site) -> Iterator[None]:
    """Refuse every doorbell and queued job inside the block; after it Redis is back and takes them again."""
    let_ring(site, *SILENCE)
    try:
        yield
    finally:
        wait_until(lambda: is_back(site), seconds=60, what="Redis")
        let_ring(site, "+@all")


@contextlib.contextmanager
def alongside(act: Callable[[Site], None], site: Site) -> Iterator[None]:
    """Do it in a thread while the block runs."""
    thread = threading.Thread(target=act, args=[site])
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("fault", [restart, flush, keep_down], ids=["restart", "flush", "down"])
def test_b28_whatever_becomes_of_redis_viewers_complete_queued_runs_run_once_and_stop_works(
    site: Site, fault: Callable[[Site], None]
) -> None:
    """With one run streaming, one queued whose doorbell is lost, one waiting for a person, and one to be stopped."""
    site.whole()
    name = of_this_try(f"b28-{fault.__name__}")
    running, doomed = stream(site, f"{name}-stream"), stream(site, f"{name}-doomed")
    waiting = site.start(f"{name}-waiting", "input", hold=False)
    site.stack.wait(waiting, "waiting")
    with Watching(site, running) as watching:
        watching.until(20)
        with deaf(site):
            queued = site.start(f"{name}-queued", "plain", hold=False)
            with alongside(fault, site):
                site.stop(doomed["id"])
                site.stack.wait(doomed["id"], "cancelled")
        assert not any(viewer.is_done for viewer in watching.viewers)
        site.stack.probe(f"{name}-stream").release()
        site.stack.wait(running["id"], "completed")
        watching.until_done()
    expected = stored(site, running["id"])
    for viewer in watching.viewers:
        assert viewer.problems == []
        assert viewer.events.same_as(expected)
        assert viewer.cuts == []  # nobody was sent away, and nobody loaded anything anew
    site.answer_question(waiting)
    for run_id in (queued, waiting):
        assert site.stack.wait(run_id)["status"] == "completed"
        assert site.broken(run_id) == []
    assert list(site.effects(queued).values()) == [1]
    assert [event["type"] for event in site.stack.events(queued)].count("claim.started") == 1


def test_a_web_process_that_is_killed_loses_no_viewer_anything(site: Site) -> None:
    """Killed in mid-stream and started again: the same clients come back with their cursors."""
    site.whole()
    run = stream(site, "web-killed")
    with Watching(site, run) as watching:
        watching.until(20)
        site.stack.kill("streaming.server")
        here = max(viewer.last for viewer in watching.viewers)
        watching.until(here + 1)
        site.stack.probe("web-killed").release()
        site.stack.wait(run["id"], "completed")
        watching.until_done()
    expected = stored(site, run["id"])
    for viewer in watching.viewers:
        assert viewer.problems == []
        assert viewer.events.same_as(expected)
        assert len(viewer.cuts) >= 1
