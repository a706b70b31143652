"""The client for programs against a real server: every transport, the end, refusals, gaps, leaving."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from runs.access import Actor
from runs.decisions.core import Fact
from runs.ids import text_id
from runs.models import Run
from runs.selectors import view_of
from streaming.client import Client, Event, Gap, NotSignedIn, Snapshot, StreamLost, UnknownRun
from streaming.client.line import Transport
from tests import builders
from tests.streaming.conftest import ROOT, Site, free_port, token_of
from tests.streaming.writing import deltas, emit, end, join_deltas, start_new_attempt, stored

pytestmark = pytest.mark.django_db(transaction=True)
TRANSPORTS: list[Transport] = ["websocket", "sse", "pages", "auto"]
each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture
def run(owner: Actor) -> Run:
    run = builders.a_run(owner)
    emit(run, *deltas(200))
    return run


@pytest.fixture
def client(site: Site, owner: Actor) -> Iterator[Client]:
    with Client(site.base, token_of(owner)) as opened:
        yield opened


@contextlib.contextmanager
def ended_from_elsewhere(run: Run) -> Iterator[None]:
    """Let another thread write more and end the run meanwhile."""

    def write() -> None:
        try:
            for i in range(20):
                emit(run, *deltas(2, start=i))
            end(run)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        writer.join(30)


@each_transport
def test_a_run_is_read_to_its_end(client: Client, run: Run, transport: Transport) -> None:
    with ended_from_elsewhere(run):
        following = client.follow(text_id("run", run.pk), transport=transport)
        items = list(following)
    assert all(isinstance(item, Event) for item in items)
    assert [item.seq for item in items if isinstance(item, Event)] == stored(run)
    assert following.cursor == f"{text_id('st', run.stream_id)}:{stored(run)[-1]}"
    assert following.transport == ("websocket" if transport == "auto" else transport)


@each_transport
def test_it_goes_on_from_a_cursor_and_is_over_at_the_head(client: Client, run: Run, transport: Transport) -> None:
    end(run)
    head, stream = stored(run)[-1], text_id("st", run.stream_id)
    for after, rest in ((head - 2, [head - 1, head]), (head, [])):
        items = client.follow(text_id("run", run.pk), f"{stream}:{after}", transport=transport)
        assert [item.seq for item in items if isinstance(item, Event)] == rest


@each_transport
def test_a_cursor_that_cannot_be_continued_gives_a_gap_and_the_view(
    client: Client, run: Run, transport: Transport
) -> None:
    ahead = f"{text_id('st', run.stream_id)}:{stored(run)[-1] + 1000}"
    with client.follow(text_id("run", run.pk), ahead, transport=transport) as following:
        gap, snapshot = next(following), next(following)
        assert isinstance(gap, Gap)
        assert gap.reason == "ahead"
        assert isinstance(snapshot, Snapshot)
        assert snapshot.view == view_of(run)[0]
        last = emit(run, *deltas(1))
        event = next(following)
        assert isinstance(event, Event)
        assert event.seq == last


@each_transport
def test_compacted_text_is_one_event_and_a_cursor_inside_of_it_gets_the_view(
    client: Client, owner: Actor, transport: Transport
) -> None:
    run = builders.a_run(owner)
    emit(run, Fact("text.start", {"message_id": "msg_1"}), *deltas(100), Fact("text.end", {"final": True}))
    end(run)
    kept = join_deltas(run)
    assert len(kept) < 20
    run_id, stream = text_id("run", run.pk), text_id("st", run.stream_id)
    items = list(client.follow(run_id, transport=transport))
    assert [item.seq for item in items if isinstance(item, Event)] == kept
    compacted = next(item for item in items if isinstance(item, Event) and item.type == "text.compacted")
    assert compacted.data["text"] == "".join(f"w{i} " for i in range(100))
    before = f"{stream}:{compacted.data['from_seq'] - 1}"
    items = list(client.follow(run_id, before, transport=transport))
    assert [item.seq for item in items if isinstance(item, Event)] == [seq for seq in kept if seq >= compacted.seq]
    gap, snapshot = client.follow(run_id, f"{stream}:{compacted.seq - 1}", transport=transport)
    assert isinstance(gap, Gap)
    assert gap.reason == "trimmed"
    assert isinstance(snapshot, Snapshot)
    assert snapshot.view == view_of(run)[0]


@pytest.mark.parametrize("transport", ["websocket", "sse", "pages"])
def test_a_tail_stays_past_the_end_and_goes_on_in_a_new_attempt(
    client: Client, run: Run, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.client.answers.POLL_SECONDS", 0.05)
    end(run)
    with client.follow(text_id("run", run.pk), transport=transport, is_tail=True) as following:
        while not (isinstance(item := next(following), Event) and item.type == "run.cancelled"):
            pass
        stream = start_new_attempt(run)
        gap, snapshot = next(following), next(following)
        assert isinstance(gap, Gap)
        assert isinstance(snapshot, Snapshot)
        assert snapshot.cursor.startswith(text_id("st", stream))
        last = emit(run, *deltas(1))
        assert getattr(next(following), "seq", None) == last


@each_transport
def test_the_servers_last_word_is_an_error_of_its_own(
    site: Site, client: Client, run: Run, outsider: Actor, transport: Transport
) -> None:
    with Client(site.base, "outlive_wrong") as unknown, pytest.raises(NotSignedIn):
        next(unknown.follow(text_id("run", run.pk), transport=transport))
    with Client(site.base, token_of(outsider)) as foreign, pytest.raises(UnknownRun):
        next(foreign.follow(text_id("run", run.pk), transport=transport))


@each_transport
def test_nobody_there_is_another_error_which_knows_the_cursor(transport: Transport) -> None:
    cursor, cuts = "st_" + "2" * 32 + ":5", []
    with Client(f"http://127.0.0.1:{free_port()}", "t") as client:
        following = client.follow(
            "run_1", cursor, transport=transport, give_up_seconds=0.2, on_cut=lambda why, wait: cuts.append(why)
        )
        with pytest.raises(StreamLost) as lost:
            next(following)
    assert lost.value.cursor == cursor
    assert cuts


@each_transport
def test_the_cursor_is_behind_the_caller(client: Client, run: Run, transport: Transport) -> None:
    with client.follow(text_id("run", run.pk), transport=transport) as following:
        next(following)
        assert following.cursor is None
        next(following)
        assert following.cursor == f"{text_id('st', run.stream_id)}:1"
    assert list(following) == []


def test_it_needs_no_django() -> None:
    code = "import sys, streaming.client; sys.exit(any(n.split('.')[0] == 'django' for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0
