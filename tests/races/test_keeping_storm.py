"""Several supervisors, a writer and readers at once: whoever reads has the whole, whatever is joined or deleted.

The orders are the machine's own; tests/races/test_keeping_races.py has the pairs by name.
"""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from runs import frames
from runs.access import Actor
from runs.decisions.core import Fact
from runs.fold import fold
from runs.fold_parts import first_seq
from runs.models import Checkpoint, Event, Run
from runs.selectors import view_of
from runs.supervisor.keeping import keep_once
from streaming.pages import PageRequest, read_page_now
from streaming.protocol import Cursor
from tests.builders import a_run
from tests.runs.retention.conftest import SetLimits, a_text, set_limits
from tests.streaming.writing import emit

__all__ = ["set_limits"]  # the fixture
pytestmark = pytest.mark.django_db(transaction=True)
TEXTS, PIECES = 40, 25
KEPT = 300


@contextmanager
def a_thread_of_django() -> Iterator[None]:
    """Close the connections that this thread has opened."""
    try:
        yield
    finally:
        connections.close_all()


def supervise(is_over: threading.Event) -> int:
    with a_thread_of_django():
        done = 0
        while not is_over.is_set():
            done += keep_once()
        return done


def write(run: Run) -> int:
    """Write texts, two at a time and a few deltas of each in turn; returns the last seq."""
    with a_thread_of_django():
        for i in range(0, TEXTS, 2):
            one, other = a_text(f"m{i}", PIECES), a_text(f"m{i + 1}", PIECES)
            for k in range(0, len(one), 4):
                emit(run, *one[k : k + 4], rings=False)
                emit(run, *other[k : k + 4], rings=False)
        return emit(run, Fact("run.titled", {"title": "done"}), rings=False)


def read(run: Run, is_over: threading.Event) -> dict[str, Any]:
    """Follow by pages, and take the view where a page does not follow the cursor; returns what it has in the end."""
    view: dict[str, Any] | None = None
    with a_thread_of_django():
        while True:
            was_over = is_over.is_set()
            seq = view["seq"] if view is not None else 0
            page = read_page_now(connections["default"], PageRequest(run.pk, Cursor(run.stream_id, seq), 40, 0))
            if not page.follows(seq):
                view = view_of(run)[0]
                assert view["seq"] >= seq
            elif page.chunk is not None:
                for frame in json.loads(b"[" + page.chunk.body + b"]"):
                    view = fold(view, frame)
                assert view is not None
                assert view["seq"] == page.last
            elif was_over:
                assert view is not None
                return view


@pytest.mark.timeout(400)
def test_readers_have_the_whole_while_supervisors_keep_join_and_delete(owner: Actor, set_limits: SetLimits) -> None:
    set_limits(checkpoint_events=20, compact_after_hours=1e-9, events_per_stream=KEPT)
    run, is_over = a_run(owner), threading.Event()
    with ThreadPoolExecutor(5) as pool:
        supervisors = [pool.submit(supervise, is_over) for _ in range(2)]
        readers = [pool.submit(read, run, is_over) for _ in range(2)]
        try:
            last = pool.submit(write, run).result(250)
        finally:
            is_over.set()
        views = [reader.result(60) for reader in readers]
        assert all(supervisor.result(60) for supervisor in supervisors)
    while keep_once():
        pass
    whole, seq = view_of(run)
    assert seq == last
    texts = {message["message_id"]: message["text"] for message in whole["messages"]}
    assert texts == {f"m{i}": "".join(f"m{i}-{n} " for n in range(PIECES)) for i in range(TEXTS)}
    assert views == [whole, whole]
    check_log(run, last)


def check_log(run: Run, last: int) -> None:
    """What is left is whole, and no more than what is kept and what came since the last checkpoint."""
    run.refresh_from_db()
    kept = Checkpoint.objects.get()
    log = [frames.decode(row.seq, row.data) for row in Event.objects.order_by("seq")]
    assert [first_seq(frame) for frame in log] == [run.floor_seq, *(frame["seq"] + 1 for frame in log[:-1])]
    assert (log[-1]["seq"], kept.floor_seq) == (last, run.floor_seq)
    assert kept.seq - KEPT < log[0]["seq"]  # its first seq may be below: the floor is not inside of a joined text
    assert any(frame["type"] == "text.compacted" for frame in log)
    assert kept.kept_bytes == sum(len(row.data) for row in Event.objects.filter(seq__lte=kept.seq))
