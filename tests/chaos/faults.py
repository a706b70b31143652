"""What breaks, done to real processes and services of one installation, and made good again."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from tests.chaos.site import Site
from tests.stack import is_alive, wait_until

FROZEN_SECONDS = 40.0
SILENT_SECONDS = 2.0
SILENCE = ("-publish", "-rpush", "-lpush")


def kill_worker(site: Site, run_id: str) -> None:
    """SIGKILL the worker that holds the run; where nobody does, one of them.

    Its parent has collected it afterwards: while its threads still end, its sockets take what nobody will read.
    """
    pid = site.holder(run_id)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid), what="the death of the worker")


@contextlib.contextmanager
def frozen_worker(site: Site, run_id: str) -> Iterator[None]:
    """SIGSTOP the holder until somebody else has the run or has ended it; SIGCONT after the block."""
    held = site.held(run_id)
    its_run, pid = held or (run_id, site.holder(run_id))
    fence = site.row(its_run)["fence"]
    os.kill(pid, signal.SIGSTOP)
    try:
        give_up_at = time.monotonic() + FROZEN_SECONDS
        while held and site.row(its_run)["fence"] == fence:
            assert time.monotonic() < give_up_at, "nobody took over from the frozen worker"
            time.sleep(0.05)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def restart_service(site: Site, name: str, number: int) -> None:
    """End PostgreSQL or Redis; the stack starts it again."""
    pid = json.loads((site.stack.state / "processes" / f"{name}.json").read_text())["pid"]
    os.kill(pid, number)
    wait_until(lambda: not is_alive(pid), what=f"the end of {name}")


@contextlib.contextmanager
def dropped_bells(site: Site, _: str) -> Iterator[None]:
    """Refuse every doorbell and every queued job for a while: whoever rings is not heard."""
    let_ring(site, *SILENCE)
    healing = threading.Timer(SILENT_SECONDS, let_ring, [site, "+@all"])
    healing.start()
    try:
        yield
    finally:
        healing.join()


def let_ring(site: Site, *rules: str) -> None:
    """Change what Redis lets everybody do."""
    with contextlib.closing(site.redis()) as client:
        client.execute_command("ACL", "SETUSER", "default", *rules)


@contextlib.contextmanager
def _at_once(act: Callable[[], object]) -> Iterator[None]:
    act()
    yield


def _flush(site: Site) -> None:
    with contextlib.closing(site.redis()) as client:
        client.flushall()


@dataclass(frozen=True)
class Fault:
    """A fault. The block that `inject` opens lasts from the fault to what makes it good again."""

    name: str
    inject: Callable[[Site, str], contextlib.AbstractContextManager[None]]


FAULTS = {
    fault.name: fault
    for fault in [
        Fault("kill worker", lambda site, run_id: _at_once(lambda: kill_worker(site, run_id))),
        Fault("freeze worker", frozen_worker),
        Fault("kill web", lambda site, _: _at_once(lambda: site.stack.kill("streaming.server"))),
        Fault("kill supervisor", lambda site, _: _at_once(lambda: site.stack.kill("outlive_supervisor"))),
        Fault("restart redis", lambda site, _: _at_once(lambda: restart_service(site, "redis", signal.SIGTERM))),
        Fault("flush redis", lambda site, _: _at_once(lambda: _flush(site))),
        Fault("restart postgres", lambda site, _: _at_once(lambda: restart_service(site, "postgres", signal.SIGINT))),
        Fault("drop bells", dropped_bells),
    ]
}
