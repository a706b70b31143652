"""Real worker processes under their parent: a run outlives the worker that is killed in the middle of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.conf import settings
from django.db import connection

from runs.models import Run
from runs.ringing import enqueue
from tests import builders

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
    began = time.monotonic()
    until(lambda: row().fence > first.fence and row().lease_owner not in (None, first.lease_owner))
    assert time.monotonic() - began < 4.0  # the parent saw it; nobody waited for the lease
    (tmp_path / "kill.release").touch()
    until(lambda: row().status == "completed")
    assert row().result["characters"] == len("one two three")

    held = builders.a_run(owner, input={"key": "drain", "text": "one two", "hold_at": 1, "n": 0, "rate": 0})
    enqueue(held.pk.hex)
    until(lambda: Run.objects.get(pk=held.pk).last_seq >= 6)
    workers.terminate()
    time.sleep(1.2)
    workers.terminate()  # a second signal hurries
    assert workers.wait(timeout=30) == 0
    left = Run.objects.get(pk=held.pk)
    assert (left.status, left.lease_owner, left.cancel_id) == ("running", None, None)
