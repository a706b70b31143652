"""Following over cuts: each frame once, in order, resumed from the cursor; and knowing when to stop."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from runs.cli.api import ApiClient
from runs.cli.problems import Refused, Unreachable
from runs.cli.settings import Target
from runs.cli.stream import LONGEST_WAIT_SECONDS, Pause, RunStream
from tests.runs.cli.conftest import RUN_ID, STREAM_ID, Script, a_frame, drop, status_only, stream_of

EVENTS = f"GET /api/v1/runs/{RUN_ID}/events"


@pytest.fixture
def client(script: Script) -> Iterator[ApiClient]:
    with closing(ApiClient(Target(script.base_url, "outlive_secret"))) as opened:
        yield opened


def follow(client: ApiClient, **options: Any) -> tuple[RunStream, list[dict[str, Any]], list[str]]:
    cuts: list[str] = []
    stream = RunStream(client, RUN_ID, on_cut=cuts.append, pause=Pause(sleep=lambda seconds: None), **options)
    return stream, list(stream.frames()), cuts


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
    stream, frames, cuts = follow(client)
    assert seqs(frames) == [1, 2, 3, 4]
    assert stream.cursor == f"{STREAM_ID}:4"
    assert len(cuts) == 4
    assert [asked.headers.get("last-event-id") for asked in script.asked_for(EVENTS)] == [
        None, f"{STREAM_ID}:2", f"{STREAM_ID}:2", f"{STREAM_ID}:2", f"{STREAM_ID}:3",
    ]  # fmt: skip


def test_the_stream_is_over_with_the_terminal_event_and_with_204(script: Script, client: ApiClient) -> None:
    script.streams = [stream_of(a_frame(1, "run.failed"))]
    assert seqs(follow(client)[1]) == [1]
    script.streams = [status_only(204)]
    stream, frames, cuts = follow(client, cursor=f"{STREAM_ID}:9")
    assert (frames, cuts, stream.cursor) == ([], [], f"{STREAM_ID}:9")
    assert len(script.asked_for(EVENTS)) == 2


def test_after_a_gap_the_snapshot_moves_the_cursor(script: Script, client: ApiClient) -> None:
    snapshot = {"type": "snapshot", "view": {"seq": 50}, "cursor": f"{STREAM_ID}:50", "part": 1, "parts": 1}
    script.streams = [
        stream_of({"type": "gap", "reason": "trimmed"}, snapshot, is_cut=True),
        stream_of(a_frame(51, "run.completed")),
    ]
    _stream, frames, _cuts = follow(client, cursor=f"{STREAM_ID}:5")
    assert [frame["type"] for frame in frames] == ["gap", "snapshot", "run.completed"]
    assert script.asked_for(EVENTS)[1].headers["last-event-id"] == f"{STREAM_ID}:50"


def parts_of(view: dict[str, Any], size: int) -> list[dict[str, Any]]:
    text = json.dumps(view)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    about = {"type": "snapshot", "cursor": f"{STREAM_ID}:50", "parts": len(pieces)}
    return [{**about, "part": n, "text": piece} for n, piece in enumerate(pieces, 1)]


def test_a_snapshot_in_parts_comes_as_one_and_half_of_it_moves_nothing(script: Script, client: ApiClient) -> None:
    view = {"messages": [{"message_id": "msg_1", "text": "x" * 100}]}
    parts = parts_of(view, 30)
    script.streams = [
        stream_of(*parts[:2], is_cut=True),
        stream_of(*parts, is_cut=True),
        stream_of(a_frame(51, "run.completed")),
    ]
    _stream, frames, _cuts = follow(client, cursor=f"{STREAM_ID}:5")
    assert [frame["type"] for frame in frames] == ["snapshot", "run.completed"]
    assert frames[0]["view"] == view
    assert [asked.headers["last-event-id"] for asked in script.asked_for(EVENTS)] == [
        f"{STREAM_ID}:5", f"{STREAM_ID}:5", f"{STREAM_ID}:50",
    ]  # fmt: skip


def test_a_new_attempt_is_followed_although_its_seqs_begin_again(script: Script, client: ApiClient) -> None:
    other = "st_" + "9" * 32
    frames = [a_frame(1, "attempt.created") | {"stream_id": other}, a_frame(2, "run.completed") | {"stream_id": other}]
    script.streams = [stream_of({"type": "gap", "reason": "new_attempt"}, *frames)]
    stream, got, _cuts = follow(client, cursor=f"{STREAM_ID}:40")
    assert seqs(got) == [1, 2]
    assert stream.cursor == f"{other}:2"


@pytest.mark.parametrize(("status", "kind"), [(401, Refused), (403, Refused), (404, Refused)])
def test_a_refusal_is_not_tried_again(script: Script, client: ApiClient, status: int, kind: type[Exception]) -> None:
    script.streams = [status_only(status)]
    with pytest.raises(kind):
        follow(client)
    assert len(script.asked_for(EVENTS)) == 1


def test_closing_says_whether_to_come_back(script: Script, client: ApiClient) -> None:
    waits: list[float] = []
    script.streams = [
        stream_of({"type": "closing", "code": 4030, "reason": "drain", "reconnect": True, "retry_after": 7}),
        stream_of({"type": "closing", "code": 1000, "reason": "done", "reconnect": False, "retry_after": None}),
    ]
    stream = RunStream(client, RUN_ID, pause=Pause(sleep=waits.append))
    assert [frame["code"] for frame in stream.frames()] == [4030, 1000]
    assert len(waits) == 1
    assert waits[0] >= 7
    script.streams = [stream_of({"type": "closing", "code": 4503, "reason": "no right any more", "reconnect": False})]
    with pytest.raises(Refused, match="no right any more"):
        follow(client)


def test_it_gives_up_after_the_stated_time_without_a_frame_and_says_how_to_go_on(
    script: Script, client: ApiClient
) -> None:
    times = iter([0.0, 100.0, 200.0, 301.0])
    script.streams = [stream_of(a_frame(1, "run.created"), is_cut=True), status_only(502)]
    with pytest.raises(Unreachable, match=rf"outlive run follow {RUN_ID} --after {STREAM_ID}:1"):
        follow(client, clock=lambda: next(times))


def test_a_frame_starts_the_time_to_give_up_anew(script: Script, client: ApiClient) -> None:
    times = iter([0.0, 200.0, 400.0, 600.0])
    script.streams = [
        drop,
        stream_of(a_frame(1, "run.created"), is_cut=True),
        stream_of(a_frame(2, "run.started"), is_cut=True),
        stream_of(a_frame(3, "run.completed")),
    ]
    assert seqs(follow(client, clock=lambda: next(times))[1]) == [1, 2, 3]


def test_a_proxys_html_in_place_of_a_stream_is_a_cut(script: Script, client: ApiClient) -> None:
    script.streams = [status_only(200), stream_of(a_frame(1, "run.completed"))]
    _stream, frames, cuts = follow(client)
    assert seqs(frames) == [1]
    assert len(cuts) == 1


def test_a_frame_counts_as_seen_only_once_the_next_one_is_asked_for(script: Script, client: ApiClient) -> None:
    script.streams = [stream_of(a_frame(1, "run.created"), a_frame(2, "run.started"))]
    stream = RunStream(client, RUN_ID)
    frames = stream.frames()
    next(frames)
    assert stream.cursor is None
    next(frames)
    assert stream.cursor == f"{STREAM_ID}:1"
    frames.close()  # type: ignore[attr-defined]


def test_pauses_have_full_jitter_grow_and_start_again_after_progress() -> None:
    waits: list[float] = []
    pause = Pause(sleep=waits.append)
    for _ in range(200):
        pause.wait()
    assert all(0 <= wait <= LONGEST_WAIT_SECONDS for wait in waits)
    assert waits[0] <= 0.5
    assert max(waits[8:]) > 10
    assert len(set(waits)) == len(waits)
    pause.reset()
    pause.wait()
    assert waits[-1] <= 0.5


def test_unicode_line_separators_in_a_frame_do_not_split_it(script: Script, client: ApiClient) -> None:
    text = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
    script.streams = [stream_of(a_frame(1, "text.delta", {"delta": text}), a_frame(2, "run.completed"))]
    assert follow(client)[1][0]["data"]["delta"] == text
