"""Real worker processes under their parent: a run outlives the worker that is killed in the middle of it."""

import json
import os
import pwd
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django_rq
import psutil
import pytest
from django.conf import settings
from django.db import connection

from runs.models import Event, Run
from runs.ringing import enqueue
from tests import builders
from tests.stack import is_alive

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
PATIENCE_SECONDS = 100.0


def until(fact: Callable[[], Any]) -> Any:
    """Wait until the fact is true, and return it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := fact()):
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.02)
    return found


@pytest.fixture
def workers(transactional_db: None, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py outlive_workers --count 2` on the test database, with the scripted model."""
    django_rq.get_queue("default").empty()
    database = connection.get_connection_params()
    url = f"postgresql:///{database['dbname']}?host={database['host']}&user={database['user']}"
    env = os.environ | {
        "DATABASE_URL": url,
        "REDIS_URL": settings.REDIS_URL,
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "config.settings"),
        "OUTLIVE_MODEL": "scripted",
        "BENCH_TOK": str(tmp_path),
        "OUTLIVE_WORKSPACES": str(tmp_path / "workspaces"),
        "OUTLIVE_COMMAND_USER": pwd.getpwuid(os.geteuid()).pw_name,  # commands write to $BENCH_TOK
        "OUTLIVE_AGENTS": "tests.runs.execution.killer",
    }
    manage = Path(settings.BASE_DIR) / "manage.py"
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen([sys.executable, str(manage), "outlive_workers", "--count", "2"], env=env, stderr=log)
    try:
        yield parent
    finally:
        if parent.poll() is None:
            parent.kill()
        parent.wait()
        sys.stderr.write((tmp_path / "log").read_text()[-20_000:])


def reasons(run: Run) -> list[str]:
    """Say why claims of the run were lost."""
    lost = Event.objects.filter(stream_id=run.stream_id, type="claim.lost").order_by("seq")
    return [json.loads(one.data)["data"]["reason"] for one in lost]


def test_a_killed_workers_run_goes_on_at_once_and_a_drain_lets_runs_go(
    workers: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    owner = builders.an_actor("owner", builders.a_tenant("acme"), "runner")
    run = builders.a_run(owner, input={"key": "kill", "text": "one two three", "hold_at": 2, "n": 0, "rate": 0})
    enqueue(run.pk.hex)

    def row() -> Run:
        return Run.objects.get(pk=run.pk)

    until(lambda: row().last_seq >= 6)  # created, claimed, started, step, model, text: it streams
    first = row()
    assert first.lease_owner is not None
    os.kill(int(first.lease_owner.split(":")[1]), signal.SIGKILL)
    until(lambda: row().fence > first.fence and row().lease_owner not in (None, first.lease_owner))
    assert reasons(run) == ["worker_lost"]  # the parent saw it; nobody waited for the lease
    (tmp_path / "kill.release").touch()
    until(lambda: row().status == "completed")
    assert row().result["characters"] == len("one two three")

    held = builders.a_run(owner, input={"key": "drain", "text": "one two", "hold_at": 1, "n": 0, "rate": 0})
    enqueue(held.pk.hex)
    until(lambda: Run.objects.get(pk=held.pk).last_seq >= 6)
    workers.terminate()
    time.sleep(1.2)
    workers.terminate()  # a second signal hurries
    assert workers.wait(timeout=90) == 0
    left = Run.objects.get(pk=held.pk)
    assert (left.status, left.lease_owner, left.cancel_id) == ("running", None, None)


def test_what_kills_its_worker_each_time_ends_and_harms_no_run_that_sat_beside_it(
    workers: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The killer dies twice beside an innocent run, then alone; the innocent one comes through, alone as well."""
    owner = builders.an_actor("owner", builders.a_tenant("acme"), "runner")
    note = tmp_path / "deaths"
    killer = builders.a_run(owner, agent="killer", input={"note": str(note)})
    # One in each of the two workers, so that one is beside the killer whichever takes it.
    beside = [
        builders.a_run(owner, input={"key": f"beside-{n}", "text": "one two", "hold_at": 1, "n": 0, "rate": 0})
        for n in range(2)
    ]

    def row(run: Run) -> Run:
        return Run.objects.get(pk=run.pk)

    for run in beside:
        enqueue(run.pk.hex)
    until(lambda: all(row(run).last_seq >= 6 for run in beside))
    enqueue(killer.pk.hex)
    until(lambda: row(killer).status == "failed")
    ended = row(killer)
    assert (ended.error_code, ended.deaths) == ("worker_lost", 3)
    assert "kill_worker" in (ended.error_message or "")
    died = note.read_text().split()
    assert len(died) == len(set(died)) == 3
    assert all(row(run).status == "running" for run in beside)
    for n in range(2):
        (tmp_path / f"beside-{n}.release").touch()
    until(lambda: all(row(run).status == "completed" for run in beside))
    alone = [run for run in beside if row(run).deaths >= 2]
    lost = Event.objects.filter(stream_id=killer.stream_id, type="claim.lost")
    assert [json.loads(one.data)["data"]["deaths"] for one in lost.order_by("seq")] == [1, 2, 3]
    assert all(row(run).deaths <= 2 for run in alone)


def test_what_a_killed_worker_and_its_killed_wards_leave_behind_is_ended(
    workers: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The command is a grandchild in a session of its own; everything between it and the parent is killed at once."""
    owner = builders.an_actor("owner", builders.a_tenant("acme"), "runner")
    run = builders.a_run(owner, input={"key": "orphan", "n": 0, "tool": "setsid"})
    enqueue(run.pk.hex)
    command = until(lambda: _child_of(tmp_path / "orphan"))
    worker = psutil.Process(int(Run.objects.get(pk=run.pk).lease_owner.split(":")[1]))
    resident = [p for p in worker.children() if "warden" in " ".join(p.cmdline())]
    wards = [ward for one in resident for ward in one.children()]
    assert wards
    for process in (*wards, *resident, worker):
        process.suspend()  # so that none of them sees the other die
    for process in (*wards, *resident, worker):
        process.kill()
    until(lambda: not is_alive(command))
    until(lambda: Run.objects.get(pk=run.pk).status in ("needs_reconciliation", "failed"))


def _child_of(path: Path) -> int:
    try:
        child = int(struct.unpack("dddd", path.read_bytes()[:32])[3])
    except (OSError, struct.error):
        return 0
    return child
