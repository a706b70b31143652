"""Looking for what is due each two seconds reads little, however many runs have ended."""

from typing import Any

import pytest
from django.db import connection

from runs.access import Actor
from runs.conf import limits
from runs.fold import FOLD_VERSION
from runs.models import Run
from runs.retention import checkpoints, expiry, joining
from tests.builders import a_run

pytestmark = pytest.mark.django_db
ENDED = 20_000
QUERIES = {
    "GROWN": checkpoints.GROWN, "ENDED_LONG": checkpoints.ENDED_LONG, "ENDED_OLD": checkpoints.ENDED_OLD,
    "OF_OLDER_FOLD": checkpoints.OF_OLDER_FOLD, "texts": joining.DUE, "expired": expiry.EXPIRED,
}  # fmt: skip


def fill(run: Run) -> None:
    """Copy an ended run, its attempt and a checkpoint many times, all of today."""
    columns = [field.column for field in Run._meta.concrete_fields]
    change = {
        "id": "gen_random_uuid()", "stream_id": "gen_random_uuid()", "status": "'completed'", "has_result": "true",
        "terminal_at": "now() - random() * interval '20 hours'",
    }  # fmt: skip
    values = ", ".join(change.get(name, name) for name in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"insert into runs_run ({', '.join(columns)}) select {values} from runs_run, generate_series(1, {ENDED})"
        )
        cursor.execute(
            """insert into runs_attempt (stream_id, run_id, number, created_at, reason, ended_at, status)
               select stream_id, id, 1, created_at, '', terminal_at, status
               from runs_run where terminal_at is not null"""
        )
        cursor.execute(
            """insert into runs_checkpoint (stream_id, seq, fold_version, view, kept_bytes, compact_at)
               select stream_id, 1, %s, '{}', 1, ended_at + interval '1 day'
               from runs_attempt where ended_at is not null and random() < 0.5""",
            [FOLD_VERSION],
        )
        cursor.execute("analyze runs_run, runs_attempt, runs_checkpoint")


def test_no_look_reads_all_runs(owner: Actor) -> None:
    fill(a_run(owner))
    params = {
        "events": limits().checkpoint_events, "hours": limits().compact_after_hours, "fold": FOLD_VERSION,
        "days": limits().events_days,
    }  # fmt: skip
    read = {}
    with connection.cursor() as cursor:
        for name, sql in QUERIES.items():
            cursor.execute(f"explain (analyze, format json) {sql}", params)
            read[name] = max(_rows_read(cursor.fetchone()[0][0]["Plan"]))
    # Of five minutes of twenty hours: one in 240.
    assert {name for name, rows in read.items() if rows > ENDED / 20} == set(), read


def _rows_read(node: dict[str, Any]) -> list[float]:
    """List how many rows each scan has read, those that it threw away included."""
    rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    here = [rows] if "Scan" in node["Node Type"] else [0]
    return here + [n for child in node.get("Plans", []) for n in _rows_read(child)]
