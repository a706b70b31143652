"""The terminal's stream: resumed by its cursor over SSE, refused, given up. Its rules: tests/runs/reading."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from runs.cli.api import ApiClient
from runs.cli.problems import Refused, Unreachable
from runs.cli.settings import Target
from runs.cli.stream import RunStream
from runs.reading.machine import Reading
from tests.runs.cli.conftest import RUN_ID, STREAM_ID, Script, a_frame, drop, status_only, stream_of

EVENTS = f"GET /api/v1/runs/{RUN_ID}/events"


@pytest.fixture
def client(script: Script) -> Iterator[ApiClient]:
    with closing(ApiClient(Target(script.base_url, "outlive_secret"))) as opened:
        yield opened


def follow(
    client: ApiClient, after: str | None = None, **options: Any
) -> tuple[Reading, list[dict[str, Any]], list[str]]:
    cuts: list[str] = []
    reading = Reading(after, give_up_seconds=300.0)
    options = {"sleep": lambda seconds: None, **options}
    stream = RunStream(client, RUN_ID, reading, lambda reason, wait_seconds: cuts.append(reason), **options)
    return reading, list(stream.frames()), cuts


def seqs(frames: list[dict[str, Any]]) -> list[int]:
    return [frame["seq"] for frame in frames if "seq" in frame]


def test_a_cut_stream_is_resumed_from_its_cursor_without_a_repeat(script: Script, client: ApiClient) -> None:
    script.streams = [
        stream_of(a_frame(1, "run.created"), a_frame(2, "run.started"), is_cut=True),
        drop,
        status_only(503),
        stream_of(a_frame(2, "run.started"), a_frame(3, "text.delta"), is_cut=False),
        stream_of(a_frame(4, "run.completed")),
    ]
    reading, frames, cuts = follow(client)
    assert seqs(frames) == [1, 2, 3, 4]
    assert reading.cursor == f"{STREAM_ID}:4"
    assert len(cuts) == 4
    assert [asked.headers.get("last-event-id") for asked in script.asked_for(EVENTS)] == [
        None, f"{STREAM_ID}:2", f"{STREAM_ID}:2", f"{STREAM_ID}:2", f"{STREAM_ID}:3",
    ]  # fmt: skip


def test_the_stream_is_over_when_the_server_says_so_and_with_204(script: Script, client: ApiClient) -> None:
    script.streams = [stream_of(a_frame(1, "run.failed"))]
    assert seqs(follow(client)[1]) == [1]
    script.streams = [stream_of(a_frame(1, "run.failed"), is_cut=True), status_only(204)]
    reading, frames, cuts = follow(client)
    assert (seqs(frames), len(cuts), reading.cursor) == ([1], 1, f"{STREAM_ID}:1")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_not_tried_again(script: Script, client: ApiClient, status: int) -> None:
    script.streams = [status_only(status)]
    with pytest.raises(Refused):
        follow(client)
    assert len(script.asked_for(EVENTS)) == 1


def test_closing_for_good_is_a_refusal_and_closing_for_now_is_waited_for(script: Script, client: ApiClient) -> None:
    waits: list[float] = []
    script.streams = [
        stream_of({"type": "closing", "code": 4030, "reason": "drain", "reconnect": True, "retry_after": 7}),
        stream_of({"type": "closing", "code": 4503, "reason": "no right any more", "reconnect": False}),
    ]
    with pytest.raises(Refused, match="no right any more"):
        follow(client, sleep=waits.append)
    assert [wait >= 7 for wait in waits] == [True]


def test_it_gives_up_after_the_stated_time_and_says_how_to_go_on(script: Script, client: ApiClient) -> None:
    times = iter([0.0, 100.0, 200.0, 301.0])
    script.streams = [stream_of(a_frame(1, "run.created"), is_cut=True), status_only(502)]
    with pytest.raises(Unreachable, match=rf"outlive run follow {RUN_ID} --after {STREAM_ID}:1"):
        follow(client, clock=lambda: next(times))


def test_a_proxys_html_in_place_of_a_stream_is_a_cut(script: Script, client: ApiClient) -> None:
    script.streams = [status_only(200), stream_of(a_frame(1, "run.completed"))]
    _reading, frames, cuts = follow(client)
    assert seqs(frames) == [1]
    assert len(cuts) == 1


def test_b19_line_separators_of_unicode_do_not_split_a_frame(script: Script, client: ApiClient) -> None:
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
    script.streams = [stream_of(a_frame(1, "text.delta", {"delta": text}), a_frame(2, "run.completed"))]
    assert follow(client)[1][0]["data"]["delta"] == text
