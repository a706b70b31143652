"""How much of the log a page reads."""

from typing import Any

import pytest
from django.db import connection

from runs.access import Actor
from streaming.reads import PAGE, PAGE_EVENTS, page_of, page_params
from tests.builders import a_run
from tests.streaming.writing import deltas, emit

pytestmark = pytest.mark.django_db


def test_a_page_reads_its_own_events_only_however_many_follow(owner: Actor) -> None:
    run = a_run(owner)
    emit(run, *deltas(PAGE_EVENTS * 8), rings=False)
    with connection.cursor() as cursor:
        asked = page_params(run.pk, run.stream_id, PAGE_EVENTS)
        cursor.execute(f"explain (analyze, format json) {PAGE}", asked)
        plan = cursor.fetchone()[0][0]["Plan"]
    assert max(_scanned(plan)) == PAGE_EVENTS


def test_an_event_that_is_larger_than_a_page_is_one_of_its_own(owner: Actor) -> None:
    """Else it would come on top of a nearly full page: more than a usual client takes in one message (1 MiB)."""
    run = a_run(owner)
    first = emit(run, *deltas(1, pad=100_000), rings=False)
    for pad in (100_000, 700_000, 10):
        emit(run, *deltas(1, pad=pad), rings=False)
    pages, after = [], first - 1
    with connection.cursor() as cursor:
        while after < first + 3:
            cursor.execute(PAGE, page_params(run.pk, run.stream_id, after))
            page = page_of(cursor.fetchall(), run.pk, run.stream_id)
            pages.append((page.first - first, page.last - first))
            after = page.last
    assert pages == [(0, 1), (2, 2), (3, 3)]


def _scanned(node: dict[str, Any]) -> list[float]:
    """List how many rows each scan of the events gave."""
    here = [node["Actual Rows"]] if node.get("Relation Name") == "runs_event" else []
    return here + [rows for child in node.get("Plans", []) for rows in _scanned(child)]
