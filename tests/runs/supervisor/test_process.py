"""The supervisor as a process of its own, which has to know the tools that it asks targets with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection

from runs.compensating import compensate_operation
from runs.database import decide
from runs.decisions import endings
from runs.models import Checkpoint, Compensation, Event, Operation, Run
from runs.testing.target import EffectTarget
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.retention.conftest import a_text, a_told_run, make_older
from tests.stack import ROOT, wait_until
from tests.tools.builders import a_call
from tools.builtin import create_invoice


@pytest.fixture
def target(tmp_path: Path) -> Iterator[EffectTarget]:
    """The demo target."""
    with EffectTarget(tmp_path) as running:
        yield running


@pytest.fixture
def supervisor(transactional_db: None, target: EffectTarget, tmp_path: Path) -> Iterator[Path]:
    """`manage.py outlive_supervisor` on the test database; its log."""
    database = connection.get_connection_params()
    url = f"postgresql:///{database['dbname']}?host={database['host']}&user={database['user']}"
    environ = os.environ | target.settings | {
        "DATABASE_URL": url, "OUTLIVE_SECRET_KEY": settings.SECRET_KEY, "OUTLIVE_WORKSPACES": str(tmp_path / "work"),
    }  # fmt: skip
    log = tmp_path / "supervisor.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "outlive_supervisor"], cwd=ROOT, env=environ, stdout=out, stderr=out
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def a_parked_invoice(owner: Any, **changes: Any) -> Operation:
    """An invoice whose answer was lost, in a run that has ended for that."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    assert isinstance(decide(endings.park(run_id=run.pk, fence=fence), ring=silent), endings.Ended)
    Operation.objects.filter(pk=sent.operation_id).update(**changes)
    return Operation.objects.get(pk=sent.operation_id)


@pytest.mark.timeout(420)
def test_it_asks_the_target_and_undoes_what_it_is_asked_to(
    supervisor: Path, target: EffectTarget, owner: Any, operator: Any
) -> None:
    operation = a_parked_invoice(owner)
    call = a_call(settings=target.settings, operation_key=operation.key)
    async_to_sync(create_invoice.call)(call, {"customer": "Ada", "cents": 1250})
    wait_until(lambda: Operation.objects.get().state == "confirmed", seconds=120, what="the look-up")
    assert Run.objects.get().status == "failed", supervisor.read_text()
    operation.refresh_from_db()
    compensate_operation(actor=operator, operation_id=operation.pk, version=operation.version, note="a mistake")
    wait_until(lambda: Compensation.objects.get().state == "succeeded", seconds=120, what="the compensation")
    assert target.effects == {operation.key: 1, f"comp:{operation.key}#1": 1}


@pytest.mark.timeout(420)
def test_it_keeps_long_streams_joins_old_texts_and_deletes_old_events(supervisor: Path, owner: Any) -> None:
    long, old, older = (a_told_run(owner, *a_text("m", n)) for n in (600, 30, 30))
    make_older(old, days=2)
    make_older(older, days=100)
    wait_until(lambda: Checkpoint.objects.count() == 3, seconds=120, what="the checkpoints")
    rows = Event.objects.filter(stream_id=old.stream_id)
    wait_until(lambda: rows.count() == 6, seconds=120, what="the joined text")
    wait_until(lambda: not Event.objects.filter(stream_id=older.stream_id).exists(), seconds=120, what="the expiry")
    assert Event.objects.filter(stream_id=long.stream_id).count() == 605, supervisor.read_text()
