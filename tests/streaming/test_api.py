"""Events over HTTP: server-sent events, JSON pages, and the stream of a create."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from runs.access import Actor
from runs.decisions.core import Fact
from runs.ids import parse_id, text_id
from runs.models import ControlConnection, Run
from runs.selectors import view_of
from tests import builders
from tests.streaming.conftest import Site, call, token_of, wait_until
from tests.streaming.writing import deltas, emit, end, join_deltas, start_new_attempt, stored

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(owner: Actor) -> Run:
    """A queued run with 5 events."""
    run = builders.a_run(owner)
    emit(run, *deltas(4), rings=False)
    return run


def events_path(run: Run, query: str = "") -> str:
    return f"/api/v1/runs/{text_id('run', run.pk)}/events{query}"


def at(run: Run, seq: int) -> str:
    return f"{text_id('st', run.stream_id)}:{seq}"


class Sse:
    """Reads server-sent events one after the other."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def next(self) -> dict[str, str] | None:
        """Read one event as its fields; None at the end of the answer."""
        fields: dict[str, str] = {}
        while line := self.answer.readline():
            text = line.decode().rstrip("\n")
            if not text and fields:
                return fields
            if text:
                name, _, value = text.partition(":")
                fields[name or "comment"] = value.strip()
        return None

    def until(self, kind: str) -> dict[str, str]:
        while True:
            fields = self.next()
            assert fields is not None, f"ended before {kind}"
            if fields.get("event") == kind:
                return fields

    def rest(self) -> list[dict[str, str]]:
        return list(iter(self.next, None))


@contextmanager
def sse(site: Site, path: str, token: str | None, *, body: Any = None, **headers: str) -> Iterator[Sse]:
    """Open a stream; a body makes it a POST. Without a token a cookie is among the headers."""
    at = urlsplit(site.base)
    held = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
    sent = {"Accept": "text/event-stream"} | ({"Authorization": f"Bearer {token}"} if token else {})
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        held.request("GET", path, headers=sent)
    else:
        held.request("POST", path, json.dumps(body), {**sent, "Content-Type": "application/json"})
    try:
        yield Sse(held.getresponse())
    finally:
        held.close()


def test_a_stream_has_headers_that_no_proxy_may_buffer(site: Site, run: Run, owner: Actor) -> None:
    with sse(site, events_path(run), token_of(owner), Accept_Encoding="gzip, br") as stream:
        headers = stream.answer.headers
        assert headers["Content-Type"] == "text/event-stream"
        assert headers["Cache-Control"] == "no-cache, no-transform"
        assert headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in headers
        assert stream.next() == {"retry": "2000"}


def test_history_and_live_events_with_ids_and_types(site: Site, run: Run, owner: Actor) -> None:
    with sse(site, events_path(run), token_of(owner)) as stream:
        assert json.loads(stream.until("ready")["data"])["head_seq"] == 5
        first = stream.next()
        assert first is not None
        assert (first["id"], first["event"]) == (at(run, 1), "run.created")
        stream.until("caught_up")
        emit(run, *deltas(1))
        live = stream.next()
        assert live is not None
        assert (live["id"], json.loads(live["data"])["seq"]) == (at(run, 6), 6)


def test_last_event_id_is_newer_than_the_address(site: Site, run: Run, owner: Actor) -> None:
    with sse(site, events_path(run, f"?after={at(run, 1)}"), token_of(owner), Last_Event_ID=at(run, 4)) as stream:
        stream.until("ready")
        event = stream.next()
        assert event is not None
        assert event["id"] == at(run, 5)


def test_a_finished_stream_gives_the_rest_then_204(site: Site, run: Run, owner: Actor) -> None:
    end(run)
    numbers = stored(run)
    token = token_of(owner)
    with sse(site, events_path(run), token, Last_Event_ID=at(run, 5)) as stream:
        events = stream.rest()
        assert [event["id"] for event in events if "id" in event] == [at(run, seq) for seq in numbers[5:]]
        assert events[-1]["event"] == "closing"
    assert (
        call(site, "GET", events_path(run, f"?after={at(run, numbers[-1])}"), token, Accept="text/event-stream").status
        == 204
    )


def test_a_foreign_cursor_gets_a_gap_and_a_snapshot_whose_id_moves_the_cursor(
    site: Site, run: Run, owner: Actor
) -> None:
    with sse(site, events_path(run, f"?after=st_{'0' * 32}:3"), token_of(owner)) as stream:
        assert json.loads(stream.until("gap")["data"])["reason"] == "other_stream"
        snapshot = stream.next()
        assert snapshot is not None
        assert (snapshot["event"], snapshot["id"]) == ("snapshot", at(run, 5))


def test_text_with_line_separators_stays_one_event(site: Site, run: Run, owner: Actor) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    emit(run, Fact("text.delta", {"message_id": "msg_1", "delta": text}))
    with sse(site, events_path(run, f"?after={at(run, 5)}"), token_of(owner)) as stream:
        data = stream.until("text.delta")["data"]
        assert len(data.splitlines()) == 1
        assert json.loads(data)["data"]["delta"] == text


def test_a_page_has_frames_and_the_cursor_to_go_on_from(site: Site, run: Run, owner: Actor) -> None:
    token = token_of(owner)
    page = call(site, "GET", events_path(run, "?limit=3"), token).json()
    assert [frame["seq"] for frame in page["data"]] == [1, 2, 3]
    assert (page["has_more"], page["next_cursor"], page["head_seq"], page["is_ended"]) == (True, at(run, 3), 5, False)
    page = call(site, "GET", events_path(run, f"?after={page['next_cursor']}"), token).json()
    assert [frame["seq"] for frame in page["data"]] == [4, 5]
    assert (page["has_more"], page["next_cursor"]) == (False, at(run, 5))
    page = call(site, "GET", events_path(run, f"?after={page['next_cursor']}"), token).json()
    assert (page["data"], page["next_cursor"]) == ([], at(run, 5))


def test_a_page_that_waits_comes_with_the_next_event(site: Site, run: Run, owner: Actor) -> None:
    token = token_of(owner)
    got: list[Any] = []
    waiting = threading.Thread(
        target=lambda: got.append(call(site, "GET", events_path(run, f"?after={at(run, 5)}&wait=20"), token).json())
    )
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    emit(run, *deltas(1))
    waiting.join(60)
    assert [frame["seq"] for frame in got[0]["data"]] == [6]


def test_a_page_that_waits_in_vain_is_empty_and_keeps_the_cursor(site: Site, run: Run, owner: Actor) -> None:
    page = call(site, "GET", events_path(run, f"?after={at(run, 5)}&wait=0.3"), token_of(owner)).json()
    assert (page["data"], page["next_cursor"]) == ([], at(run, 5))


def test_a_page_that_waits_at_the_end_of_an_ended_run_does_not_wait(site: Site, run: Run, owner: Actor) -> None:
    end(run)
    page = call(site, "GET", events_path(run, f"?after={at(run, stored(run)[-1])}&wait=25"), token_of(owner)).json()
    assert (page["data"], page["is_ended"]) == ([], True)


def test_a_page_may_hold_the_view_and_the_cursor_to_go_on_from(site: Site, run: Run, owner: Actor) -> None:
    end(run)
    page = call(site, "GET", events_path(run, "?snapshot=1"), token_of(owner)).json()
    view, seq = view_of(run)
    cursor = at(run, seq)
    assert page["snapshot"] == {"type": "snapshot", "cursor": cursor, "part": 1, "parts": 1, "view": view}
    assert (page["data"], page["next_cursor"], page["has_more"]) == ([], cursor, False)
    assert (page["head_seq"], page["status"], page["is_ended"]) == (seq, "cancelled", True)


@pytest.mark.parametrize("reason", ["trimmed", "compacted", "ahead", "other_stream", "new_attempt"])
def test_a_page_cannot_continue_an_expired_cursor(site: Site, run: Run, owner: Actor, reason: str) -> None:
    cursor = {"trimmed": at(run, 1), "ahead": at(run, 9), "other_stream": f"st_{'0' * 32}:1"}.get(reason, at(run, 2))
    if reason == "trimmed":
        Run.objects.filter(pk=run.pk).update(floor_seq=4)
    if reason == "compacted":
        assert join_deltas(run) == [1, 5]
    if reason == "new_attempt":
        end(run)
        start_new_attempt(run)
    answer = call(site, "GET", events_path(run, f"?after={cursor}"), token_of(owner))
    assert answer.status == 410
    error = answer.json()["error"]
    assert (error["code"], error["details"]["reason"]) == (
        "cursor_expired",
        "trimmed" if reason == "compacted" else reason,
    )


@pytest.mark.parametrize(
    "query", ["?after=5", "?limit=0", "?limit=5000", "?limit=x", "?wait=26", "?wait=-1", "?wait=nan"]
)
def test_bad_parameters_are_named(site: Site, run: Run, owner: Actor, query: str) -> None:
    answer = call(site, "GET", events_path(run, query), token_of(owner))
    assert answer.status == 400
    assert answer.json()["error"]["param"] == query[1:].partition("=")[0]


def test_events_of_a_foreign_run_do_not_exist(site: Site, run: Run, outsider: Actor) -> None:
    assert call(site, "GET", events_path(run), token_of(outsider)).status == 404
    assert call(site, "GET", "/api/v1/runs/run_nonsense/events", token_of(outsider)).status == 404


def test_a_create_may_answer_with_its_stream(site: Site, owner: Actor) -> None:
    body = {"agent": "chat", "input": {"prompt": "hello"}, "on_disconnect": "continue"}
    with sse(site, "/api/v1/runs", token_of(owner), body=body, Idempotency_Key="k1") as stream:
        assert stream.answer.status == 201
        location = stream.answer.headers["Location"]
        event = stream.until("run.created")
        assert location == f"/api/v1/runs/{json.loads(event['data'])['run_id']}/events"
        run = Run.objects.get(pk=parse_id("run", location.split("/")[4]))
        end(run)
        assert stream.until("run.cancelled")["id"] == at(run, stored(run)[-1])
    with sse(site, "/api/v1/runs", token_of(owner), body=body, Idempotency_Key="k1") as again:
        assert (again.answer.status, again.answer.headers["Idempotent-Replayed"]) == (200, "true")
        again.until("run.cancelled")
    assert Run.objects.count() == 1


def test_a_create_without_a_stream_answers_with_the_run(site: Site, owner: Actor) -> None:
    answer = call(site, "POST", "/api/v1/runs", token_of(owner), {"agent": "chat", "input": {"prompt": "hello"}})
    assert answer.status == 201
    assert answer.json()["status"] == "queued"
    assert call(site, "GET", "/api/v1/runs", token_of(owner)).json()["data"][0]["id"] == answer.json()["id"]


def test_the_stream_of_its_own_create_is_a_control_connection(site: Site, owner: Actor) -> None:
    body = {"agent": "chat", "input": {"prompt": "hello"}, "on_disconnect": {"grace_s": 60}, "stream": True}
    with sse(site, "/api/v1/runs", token_of(owner), body=body) as stream:
        stream.until("caught_up")
        run = Run.objects.get()
        assert (run.control_count, run.grace_expires_at) == (1, None)
        before = ControlConnection.objects.get().presence_until
        # Our heartbeats reach the client: a sign of life, so the presence lease moves on.
        wait_until(lambda: ControlConnection.objects.get().presence_until > before, 15)
    wait_until(lambda: Run.objects.get().control_count == 0, 10, "the detach")
    assert Run.objects.get().grace_expires_at is not None


def test_a_stream_that_only_watches_is_no_control_connection(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=60.0)
    with sse(site, events_path(run), token_of(owner)) as stream:
        stream.until("caught_up")
        assert ControlConnection.objects.count() == 0
