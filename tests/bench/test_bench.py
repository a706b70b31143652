"""The benchmark itself: it sees what it is there to see, and a tiny run of every row works. No timing is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.bench.figures import Figure, median_points, points
from tests.bench.log import Log

ROOT = Path(__file__).resolve().parents[2]
ROWS = {
    "a", "b.delay.1", "b.delay.3", "b.rate.1", "b.rate.2", "b.rate.3", "b.whole", "b.stuck",
    "c.process", "c.streaming", "c.queued", "c.stubborn", "c.setsid", "c.stubborn_setsid", "d.behind", "d.floor",
    "e.noticed", "e.goes_on", "e.lost", "f.runs", "f.steps.1", "f.steps.50",
    "g.socket", "g.sse", "g.crowd", "h.echo", "h.flood", "h.ctrl_c", "h.reattach", "h.idle",
}  # fmt: skip
HAVE_BASELINE = ROWS - {"b.whole", "d.floor", "h.reattach", "h.idle"}


def frames(*seqs: int) -> bytes:
    return b"[" + b",\n".join(b'{"seq":%d,"v":1,"type":"text.delta"}' % seq for seq in seqs) + b"]"


def test_a_whole_log_has_no_problems():
    log = Log()
    for message in (frames(1, 2), b'{"type":"caught_up","cursor":"st:2"}', frames(3)):
        log.take(message)
    assert (log.problems, log.last, log.count) == ([], 3, 3)


@pytest.mark.parametrize(
    "seqs", [[(1,), (3,)], [(1, 2), (2, 3)], [(1, 3, 2)], [(2, 1)]], ids=["lost", "doubled", "swapped", "early"]
)
def test_a_log_names_what_is_wrong(seqs):
    log = Log()
    for one in seqs:
        log.take(frames(*one))
    assert log.problems


def test_a_log_knows_when_a_delta_was_made():
    log = Log(wants_delays=True)
    log.take(rb'[{"seq":1,"data":{"delta":"{\"i\":0,\"t\":1700000000.25}"}}]')
    assert [made_at for made_at, _ in log.delays] == [1700000000.25]


def test_points_are_milliseconds_and_a_bad_repetition_does_not_decide():
    assert points([0.001, 0.002, 0.003]) == {"p50": 2.0, "p99": 3.0, "max": 3.0}
    assert median_points([[0.001], [0.002], [9.0]])["p50"] == 2.0


@pytest.mark.parametrize(
    ("ours", "more_is_better", "is_exact", "is_met"),
    [(5.0, False, True, True), (5.1, False, True, False), (5.0, False, False, False), (5.1, True, True, True)],
)
def test_a_row_is_met_within_its_bound_and_only_if_exact(ours, more_is_better, is_exact, is_met):
    row = Figure("x", "x", "ms", {"p50": ours}, {"p50": 5.0}, more_is_better=more_is_better, is_exact=is_exact)
    assert json.loads(row.line())["met"] is is_met


@pytest.mark.timeout(400)
def test_a_quick_run_measures_every_row_and_loses_nothing(database_url):
    environ = os.environ | {"DATABASE_URL": database_url, "OUTLIVE_SECRET_KEY": settings.SECRET_KEY}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick"],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["row"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert set(rows) == ROWS
    assert all(row["exact"] for row in rows.values())
    assert {name for name, row in rows.items() if row.get("baseline")} == HAVE_BASELINE
    assert all(rows[name]["told_before_death"] == 0 for name in ROWS if name.startswith("c."))
