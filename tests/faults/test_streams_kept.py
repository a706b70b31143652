"""FAULTS B14, B16, B17: what a cursor is worth when events are gone, written side by side, or of another stream.

Each case goes over WebSocket and SSE alike, and over pages.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from runs.access import Actor
from runs.agents import RunContext, agent
from runs.ids import text_id
from runs.models import Run
from runs.selectors import view_of
from runs.supervisor.keeping import keep_once
from runs.testing.lab import Outlive
from tests.builders import a_run
from tests.faults.conftest import Check
from tests.races.two_actors import a_connection, wait_until
from tests.runs.retention.conftest import SetLimits, a_text, make_older, set_limits
from tests.streaming.conftest import Site, call, running_server, token_of, watching
from tests.streaming.test_api import sse
from tests.streaming.writing import deltas, emit, end, start_new_attempt, stored
from tools import ToolCall, tool

__all__ = ["set_limits"]  # the fixture
pytestmark = pytest.mark.django_db(transaction=True)
WAYS = ["websocket", "sse"]
TOOLS, EACH = 8, 250


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for the tests of this module."""
    with running_server(tmp_path_factory.mktemp("server")) as site:
        yield site


class Reader:
    """Reads a stream one message at a time, whatever brings it."""

    def __init__(self, next_frames: Any) -> None:
        self._next_frames = next_frames
        self.events: list[dict[str, Any]] = []
        self.controls: list[dict[str, Any]] = []

    def until(self, kind: str) -> dict[str, Any]:
        """Read until a frame of this type came."""
        while True:
            for frame in self._next_frames():
                (self.events if "seq" in frame else self.controls).append(frame)
                if frame["type"] == kind:
                    return dict(frame)

    @property
    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.controls if frame["type"] != "heartbeat"]

    @property
    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.events]


@contextmanager
def reading(way: str, site: Site, run: Run, token: str, after: str | None = None) -> Iterator[Reader]:
    """Follow a run."""
    if way == "websocket":
        with watching(site, run, token, **({"after": after} if after else {})) as watcher:
            yield Reader(lambda: watcher.next(60))
    else:
        with sse(site, path_of(run, after), token) as stream:

            def next_frames() -> list[dict[str, Any]]:
                fields = stream.next()
                assert fields is not None, "the answer ended"
                return [json.loads(fields["data"])] if "data" in fields else []

            yield Reader(next_frames)


def path_of(run: Run, after: str | None = None) -> str:
    return f"/api/v1/runs/{text_id('run', run.pk)}/events" + (f"?after={after}" if after else "")


def at(run: Run, seq: int) -> str:
    return f"{text_id('st', run.stream_id)}:{seq}"


def a_run_of_200_events(owner: Actor) -> Run:
    run = a_run(owner)
    emit(run, *a_text("m", 198, ends=False), rings=False)
    run.refresh_from_db()
    assert run.last_seq == 200
    return run


WHOLE_TEXT = "".join(f"m-{i} " for i in range(198))


@pytest.mark.parametrize("way", WAYS)
def test_b14_a_cursor_older_than_what_is_kept_gets_a_gap_the_whole_text_and_then_live(
    server: Site, owner: Actor, set_limits: SetLimits, way: str
) -> None:
    set_limits(events_per_stream=50, checkpoint_events=20)
    run, token = a_run_of_200_events(owner), token_of(owner)
    keep_once()
    assert stored(run) == list(range(151, 201))
    for after in (at(run, 5), at(run, 149), None):
        with reading(way, server, run, token, after) as reader:
            assert reader.until("ready")["earliest_seq"] == 151
            gap = reader.until("gap")
            assert (gap["reason"], gap["earliest_seq"], gap["requested"]) == ("trimmed", 151, after)
            snapshot = reader.until("snapshot")
            reader.until("caught_up")
            assert reader.kinds == ["ready", "gap", "snapshot", "caught_up"]
            assert (reader.seqs, snapshot["view"]["messages"][0]["text"]) == ([], WHOLE_TEXT)
        assert call(server, "GET", path_of(run, after), token).status == 410
    with reading(way, server, run, token, at(run, 150)) as reader:
        reader.until("caught_up")
        last = emit(run, *deltas(1))
        reader.until("text.delta")
        assert (reader.kinds, reader.seqs) == (["ready", "caught_up"], [*range(151, 201), last])
    with reading(way, server, run, token, at(run, 5)) as reader:
        reader.until("caught_up")
        last = emit(run, *deltas(1))
        reader.until("text.delta")
        assert reader.seqs == [last]


@pytest.mark.parametrize("way", WAYS)
def test_b14_when_everything_has_expired_the_view_is_still_there_and_said_to_be_all(
    server: Site, owner: Actor, way: str
) -> None:
    run, token = a_run_of_200_events(owner), token_of(owner)
    end(run, rings=False)
    make_older(run, days=91)
    keep_once()
    run.refresh_from_db()
    assert (stored(run), run.floor_seq) == ([], run.last_seq + 1)
    with reading(way, server, run, token, at(run, 5)) as reader:
        reader.until("closing")
        assert reader.kinds == ["ready", "gap", "snapshot", "caught_up", "closing"]
        assert (reader.controls[1]["reason"], reader.controls[1]["earliest_seq"]) == ("trimmed", run.last_seq + 1)
        view = reader.controls[2]["view"]
        assert (view["messages"][0]["text"], view["status"]) == (WHOLE_TEXT, "cancelled")
        assert (reader.seqs, reader.controls[-1]["code"]) == ([], 1000)
    assert call(server, "GET", path_of(run, at(run, 5)), token).status == 410
    whole = call(server, "GET", f"{path_of(run)}?snapshot=1", token).json()
    assert whole["snapshot"]["view"]["messages"][0]["text"] == WHOLE_TEXT
    last = at(run, run.last_seq)
    rest = call(server, "GET", path_of(run, last), token).json()
    assert (rest["data"], rest["is_ended"], rest["next_cursor"]) == ([], True, last)
    if way == "sse":
        assert call(server, "GET", path_of(run, last), token, Accept="text/event-stream").status == 204
    else:
        with reading(way, server, run, token, last) as reader:
            assert reader.until("closing")["code"] == 1000
            assert (reader.kinds, reader.seqs) == (["ready", "caught_up", "closing"], [])


@tool(effect="read", timeout_seconds=90)
async def count_aloud(call: ToolCall, number: int) -> int:
    """Tell each of many numbers."""
    for n in range(EACH):
        await call.progress({"tool": number, "n": n})
        await asyncio.sleep(0)
    return EACH


@agent("b16_choir", listed=False)
async def choir(ctx: RunContext) -> int:
    return sum(await ctx.gather(*(ctx.tool(count_aloud, number=number) for number in range(TOOLS))))


def numbers(events: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    told = [event["data"]["data"] for event in events if event["type"] == "tool.progress"]
    return Counter((one["tool"], one["n"]) for one in told)


def poll(site: Site, run: Run, token: str) -> list[dict[str, Any]]:
    """Read pages until the end of the run."""
    events: list[dict[str, Any]] = []
    cursor, is_over = at(run, 0), threading.Event()
    while True:
        page = call(site, "GET", path_of(run, cursor), token).json()
        events += page["data"]
        cursor = page["next_cursor"]
        if page["is_ended"] and not page["has_more"]:
            return events
        is_over.wait(0.02)


def read_to_end(way: str, site: Site, run: Run, token: str) -> list[dict[str, Any]]:
    if way == "poll":
        return poll(site, run, token)
    with reading(way, site, run, token) as reader:
        reader.until("closing")
        return reader.events


def hold_up(run: Run, is_over: threading.Event) -> int:
    """Hold the run's row, again and again, until the writer waits for it; returns how often it did."""
    held = 0
    with a_connection() as holder, a_connection(autocommit=True) as watch:
        waits = "select count(*) as n from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        while held < 5 and not is_over.is_set():
            holder.execute("select 1 from runs_run where id = %s for no key update", [run.pk])
            pid = holder.info.backend_pid
            wait_until(lambda: is_over.is_set() or watch.execute(waits, [pid]).fetchone()["n"])  # noqa: B023
            held += not is_over.is_set()
            holder.rollback()
    return held


def test_b16_what_eight_tools_tell_at_once_is_in_every_view_exactly_once(
    outlive: Outlive, server: Site, check: Check
) -> None:
    """Five times a transaction holds the run's row until the writer of the events is seen to wait for it."""
    run, is_over = outlive.put("b16_choir"), threading.Event()
    token = token_of(outlive.actor)
    with ThreadPoolExecutor(4) as pool:
        views: dict[str, Future[Any]] = {}
        for way in (*WAYS, "poll"):
            views[way] = pool.submit(read_to_end, way, server, run.row, token)
        delayed = pool.submit(hold_up, run.row, is_over)
        try:
            run.to_end(seconds=90)
        finally:
            is_over.set()
        read = {way: view.result(60) for way, view in views.items()}
    assert (run.status, run.result) == ("completed", TOOLS * EACH)
    assert delayed.result() > 0
    everything = Counter((tool, n) for tool in range(TOOLS) for n in range(EACH))
    assert numbers(run.events) == everything
    for way, events in read.items():
        assert events == run.events, way
    check(run)


@pytest.mark.parametrize("way", WAYS)
def test_b17_a_cursor_of_another_stream_or_beyond_the_end_is_answered_by_a_reset(
    server: Site, owner: Actor, way: str
) -> None:
    first, second, token = a_run_of_200_events(owner), a_run(owner), token_of(owner)
    emit(second, *deltas(9), rings=False)
    end(first, rings=False)
    first.refresh_from_db()
    of_ended = at(first, 120)
    start_new_attempt(first)  # `first` has another stream from here on
    cases = [(second, at(first, 120), "other_stream"), (second, of_ended, "other_stream"),
             (first, of_ended, "new_attempt"), (second, at(second, 1010), "ahead")]  # fmt: skip
    for run, cursor, reason in cases:
        with reading(way, server, run, token, cursor) as reader:
            gap = reader.until("gap")
            assert (gap["reason"], gap["requested"], gap["earliest_seq"]) == (reason, cursor, 1)
            snapshot = reader.until("snapshot")
            reader.until("caught_up")
            view, seq = view_of(run)
            assert (snapshot["view"], snapshot["cursor"]) == (view, at(run, seq))
            last = emit(run, *deltas(1))
            reader.until("text.delta")
            assert (reader.kinds, reader.seqs) == (["ready", "gap", "snapshot", "caught_up"], [last])
        page = call(server, "GET", path_of(run, cursor), token)
        assert (page.status, page.json()["error"]["code"]) == (410, "cursor_expired")
    attempt = f"/api/v1/runs/{text_id('run', first.pk)}/attempts/1/events?after=1202"
    gone = call(server, "GET", attempt, token)
    assert (gone.status, gone.json()["error"]["details"]["reason"]) == (410, "ahead")


@pytest.mark.parametrize("way", WAYS)
def test_b17_the_stream_of_a_run_stays_the_same_over_a_wait_for_a_person(
    outlive: Outlive, server: Site, way: str
) -> None:
    run = outlive.run("b17_asks")
    assert run.status == "waiting"
    token, before = token_of(outlive.actor), run.events
    with reading(way, server, run.row, token, at(run.row, len(before) - 1)) as reader:
        reader.until("caught_up")
        run.answer({"on": True})
        run.to_end()
        reader.until("closing")
        assert reader.events == run.events[len(before) - 1 :]


class Go(BaseModel):
    """A yes or no."""

    on: bool


@agent("b17_asks", listed=False)
async def asks(ctx: RunContext) -> Any:
    return await ctx.ask("Go on?", schema=Go)
