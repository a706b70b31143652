"""`manage.py outlive_purge`: what it announces is what it does."""

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command

from runs.access import Actor
from runs.models import Checkpoint, Event, Run
from runs.retention.checkpoints import keep
from runs.retention.planning import plan
from runs.supervisor.keeping import keep_once
from tests.builders import a_run
from tests.runs.retention.conftest import SetLimits, a_text, a_told_run, make_older
from tests.streaming.writing import stored

pytestmark = pytest.mark.django_db


def purge(*options: str) -> Any:
    out = StringIO()
    call_command("outlive_purge", *options, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def runs(owner: Actor, set_limits: SetLimits, settings: LazySettings, tmp_path: Path) -> dict[str, Run]:
    """Runs of every age, and one too long."""
    settings.WORKSPACES = tmp_path
    set_limits(events_per_stream=200)
    made = {"open": a_run(owner)}
    for name, days in (("young", 0.5), ("texts", 2), ("events", 100), ("runs", 400), ("held", 400)):
        made[name] = a_told_run(owner, *a_text("m", 30))
        make_older(made[name], days=days)
    Run.objects.filter(pk=made["held"].pk).update(is_held=True)
    made["long"] = a_told_run(owner, *a_text("m", 300))
    keep(made["long"].stream_id)
    for name in ("texts", "runs", "held"):
        folder = tmp_path / made[name].pk.hex
        folder.mkdir()
        os.utime(folder, (0, 0))
    return made


def test_a_dry_run_counts_what_is_due_and_does_nothing(runs: dict[str, Run]) -> None:
    before = Event.objects.count()
    size = sum(
        len(text) for text in Event.objects.filter(stream_id=runs["events"].stream_id).values_list("data", flat=True)
    )
    report = purge("--dry-run")
    assert (report["object"], report["dry_run"], report["policy"]["events_days"]) == ("purge", True, 90)
    due = report["due"]
    assert due["texts"] == {"streams": 3, "deltas": 90}
    assert (due["events"]["streams"], due["events"]["events"]) == (2, 70)
    assert due["events"]["bytes"] == pytest.approx(2 * size, rel=0.01)
    assert (due["oversize"]["streams"], due["runs"], due["held"]) == (1, {"runs": 1}, {"runs": 1})
    assert due["folders"] == {"folders": 1}
    assert (Event.objects.count(), "left" in report) == (before, False)


def test_a_purge_does_what_was_announced(runs: dict[str, Run]) -> None:
    left = purge()["left"]
    assert {name: set(counts.values()) for name, counts in left.items() if name != "held"} == {
        name: {0} for name in ("texts", "events", "oversize", "folders", "runs")
    }
    assert set(Run.objects.values_list("pk", flat=True)) == {run.pk for name, run in runs.items() if name != "runs"}
    assert {name: len(stored(run)) for name, run in runs.items()} == {
        "open": 1, "young": 35, "texts": 6, "events": 0, "runs": 0, "held": 35, "long": 200,
    }  # fmt: skip
    assert keep_once() == 0


def test_a_bound_that_was_lowered_is_applied_to_streams_that_grow_no_more(owner: Actor, set_limits: SetLimits) -> None:
    run = a_told_run(owner, *a_text("m", 95))
    keep(run.stream_id)
    set_limits(events_per_stream=40)
    assert plan()["oversize"]["streams"] == 1
    purge()
    assert stored(run) == list(range(61, 101))
    assert Checkpoint.objects.get().floor_seq == 61


def test_people_get_lines(runs: dict[str, Run]) -> None:
    out = StringIO()
    call_command("outlive_purge", "--dry-run", stdout=out)
    assert "90 deltas of 3 streams to be joined" in out.getvalue()
    assert "1 runs to be deleted whole" in out.getvalue()
