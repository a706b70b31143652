"""B32: workers whose clocks are ten minutes ahead and ten minutes behind. PostgreSQL's clock is the only one compared.

The workers run under faketime; web, supervisor and PostgreSQL have the true clock.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest

from config.stack.external import FAKETIME, find
from runs.frames import write_time
from tests.chaos.site import Site
from tests.stack import ROOT, is_alive, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SHIFTS = ("+10m", "-10m")
DEADLINE_SECONDS = 6
KILL_LIMIT_SECONDS = 10
AT_LEAST = 4  # runs of a kind
CLAIM = "claim.started"


@contextlib.contextmanager
def without_workers(site: Site) -> Iterator[dict[str, str]]:
    """Let the installation's workers leave and nobody start them again; gives the environment that they had."""
    workers = site.whole()["runs.execution.worker_main"]
    parent = site.stack.the("outlive_workers")
    environ = workers[0].environ()
    parent.suspend()
    try:
        for worker in workers:
            worker.terminate()
        wait_until(lambda: not any(is_alive(worker.pid) for worker in workers), what="the end of the workers")
        yield environ
    finally:
        parent.resume()


@contextlib.contextmanager
def a_worker_at(shift: str, program: str, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker and its parent by a wrong clock; what counts seconds (monotonic clocks) is left alone."""
    command = [program, "-f", shift, sys.executable, "manage.py", "outlive_workers", "--count", "1"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environ | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def workers_of(process: subprocess.Popen[bytes]) -> set[int]:
    """Return the worker processes below a parent."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        return {child.pid for child in below if "runs.execution.worker_main" in " ".join(child.cmdline())}
    return set()


def carriers(site: Site, run_id: str) -> list[int]:
    """Return the process of each claim of a run."""
    claims = [event["data"] for event in site.stack.events(run_id) if event["type"] == CLAIM]
    return [int(claim["worker"].split(":")[1]) for claim in claims]


def a_long_run(site: Site, key: str, **more: Any) -> str:
    """Start a run that streams for three leases."""
    return str(site.stack.start("probe", {"key": key, "n": 150, "rate": 10}, **more)["id"])


def test_b32_no_lease_and_no_deadline_goes_by_the_clock_of_a_worker(site: Site) -> None:
    program = find(FAKETIME, os.environ)
    if program is None:
        pytest.skip("faketime is missing (see the start of this run)")
    with without_workers(site) as environ, contextlib.ExitStack() as skewed:
        parents = [skewed.enter_context(a_worker_at(shift, program, environ)) for shift in SHIFTS]
        pids = [wait_until(lambda p=p: workers_of(p), seconds=60, what="a worker") for p in parents]
        _let_both_work(site, pids)
        began = datetime.now(UTC)
        runs = runs_of_both(site, pids, "b32")
        timed = runs_of_both(site, pids, "b32-timed", deadline_s=DEADLINE_SECONDS)
        for run_id in timed:
            run = site.stack.wait(run_id, "cancelled")
            assert run["cancel"]["reason"] == "deadline"
            late = datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["created_at"])
            assert DEADLINE_SECONDS <= late.total_seconds() < DEADLINE_SECONDS + KILL_LIMIT_SECONDS
        for run_id in runs:
            run = site.stack.wait(run_id, "completed")
            assert write_time(began) <= run["created_at"] <= run["started_at"] <= run["ended_at"]
            assert datetime.fromisoformat(run["ended_at"]) - began < timedelta(minutes=5)
            for event in site.stack.events(run_id):  # the worker stamps some of them, the database the others
                assert run["created_at"] <= event["ts"] <= write_time(datetime.now(UTC) + timedelta(seconds=1))
            assert len(carriers(site, run_id)) == 1  # nobody took a live lease for an expired one
        for run_id in [*runs, *timed]:
            assert site.broken(run_id) == []


def runs_of_both(site: Site, pids: list[set[int]], key: str, **more: Any) -> list[str]:
    """Start long runs until each worker carries one; which of two idle workers takes a job is for Redis to say."""
    runs: list[str] = []
    seen: set[int] = set()

    def look() -> bool:
        runs.append(a_long_run(site, f"{key}-{len(runs)}", **more))
        seen.add(wait_until(lambda: carriers(site, runs[-1]), seconds=60, what="a claim")[0])
        return len(runs) >= AT_LEAST and all(pids_of & seen for pids_of in pids)

    wait_until(look, seconds=60, what="a run of each worker")
    return runs


def _let_both_work(site: Site, pids: list[set[int]]) -> None:
    """Start small runs until each worker has carried one."""
    seen: set[int] = set()

    def look() -> bool:
        run_id = site.start(f"awake-{time.monotonic_ns()}", "read", hold=False)
        site.stack.wait(run_id)
        seen.update(carriers(site, run_id))
        return all(pids_of & seen for pids_of in pids)

    wait_until(look, seconds=60, what="work of both workers")
