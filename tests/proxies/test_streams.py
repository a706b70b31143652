"""Streams through a real nginx: nothing is held back, nothing that is idle is cut, sockets get through.

An event is written only when the one before has been read, so whatever holds one back stops the test.
"""

import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from runs.access import Actor
from runs.ids import text_id
from runs.models import Run
from tests import builders
from tests.proxies.conftest import IDLE_SECONDS, Fronts
from tests.streaming.conftest import Site, Watcher, call, token_of, watching
from tests.streaming.test_api import events_path, sse
from tests.streaming.writing import deltas, emit, end

pytestmark = pytest.mark.django_db(transaction=True)
HELD_SECONDS = 10.0  # an event that takes so long is held back; a loaded machine takes less


@pytest.fixture
def run(owner: Actor) -> Run:
    return builders.a_run(owner)


class Unzipped:
    """The lines of an answer that a proxy has compressed, as they come: what was flushed can be read."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.inflate = zlib.decompressobj(wbits=31)
        self.text = b""

    def readline(self) -> bytes:
        while b"\n" not in self.text:
            raw = self.answer.read1(65536)
            if not raw:
                return b""
            self.text += self.inflate.decompress(raw)
        line, _, self.text = self.text.partition(b"\n")
        return line + b"\n"


def test_b25_nothing_holds_an_event_back(fronts: Fronts, front: Site, run: Run, owner: Actor) -> None:
    """A proxy that buffers, or a compressor that waits for more, would show events late or at the end."""
    with sse(front, events_path(run), token_of(owner), Accept_Encoding="gzip, br") as stream:
        headers = stream.answer.headers
        assert headers["Content-Type"] == "text/event-stream"
        assert headers["Cache-Control"] == "no-cache, no-transform"
        is_zipped = headers.get("Content-Encoding") == "gzip"
        assert is_zipped == (front.base == fronts.zipping.base)
        if is_zipped:
            stream.answer = Unzipped(stream.answer)  # type: ignore[assignment]
        stream.until("caught_up")
        for n in range(5):
            sent = time.monotonic()
            seq = emit(run, *deltas(1, start=n))
            assert json.loads(stream.until("text.delta")["data"])["seq"] == seq
            assert time.monotonic() - sent < HELD_SECONDS
        end(run)
        assert stream.until("closing")


def test_b25_the_headers_ask_every_proxy_to_hold_nothing_back(fronts: Fronts, run: Run, owner: Actor) -> None:
    """nginx takes X-Accel-Buffering for itself; Outlive's own answer has it."""
    with sse(fronts.direct, events_path(run), token_of(owner), Accept_Encoding="gzip, br") as stream:
        assert stream.answer.headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in stream.answer.headers
    with sse(fronts.nginx, events_path(run), token_of(owner), Accept_Encoding="gzip, br") as stream:
        assert "X-Accel-Buffering" not in stream.answer.headers


def test_sockets_get_through(front: Site, run: Run, owner: Actor) -> None:
    with watching(front, run, token_of(owner)) as watcher:
        watcher.until("caught_up")
        for n in range(5):
            watcher.until_seq(emit(run, *deltas(1, start=n)), HELD_SECONDS)
        end(run)
        assert watcher.close_code() == 1000


@contextmanager
def idle_streams(site: Site, run: Run, token: str) -> Iterator[tuple[Any, Watcher]]:
    with sse(site, events_path(run), token) as stream, watching(site, run, token) as watcher:
        stream.answer.fp.raw._sock.settimeout(2 * IDLE_SECONDS)  # type: ignore[union-attr]
        stream.until("caught_up")
        watcher.until("caught_up")
        yield stream, watcher


def test_b27_heartbeats_keep_an_idle_stream_open(fronts: Fronts, run: Run, owner: Actor) -> None:
    """Through a proxy that cuts what is silent for 22 s: without two heartbeats both streams would be gone."""
    began = time.monotonic()
    with idle_streams(fronts.impatient, run, token_of(owner)) as (stream, watcher):
        for _ in range(2):
            assert watcher.until("heartbeat", 2 * IDLE_SECONDS) == {"type": "heartbeat", "head_seq": 1}
            assert stream.next() == {"comment": "hb"}  # no id: no cursor moves, and no event: nothing is printed
        while time.monotonic() - began <= IDLE_SECONDS:  # the first one may come at once: beats are the process's
            watcher.until("heartbeat", 2 * IDLE_SECONDS)
            assert stream.next() == {"comment": "hb"}
        seq = emit(run, *deltas(1))
        assert seq == 2, "a heartbeat takes no seq"
        watcher.until_seq(seq, HELD_SECONDS)
        assert watcher.seqs == [1, 2]
        assert json.loads(stream.until("text.delta")["data"])["seq"] == seq


def test_without_the_upgrade_lines_a_socket_is_refused_and_pages_of_events_get_through(
    fronts: Fronts, run: Run, owner: Actor
) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(
            f"ws://{urlsplit(fronts.bare.base).netloc}/ws/v1/runs/{text_id('run', run.pk)}/",
            additional_headers={"Authorization": f"Bearer {token_of(owner)}"},
        ),
    ):
        pass
    assert refused.value.response.status_code == 404
    page = call(fronts.bare, "GET", events_path(run, "?wait=0"), token_of(owner))
    assert [event["seq"] for event in page.json()["data"]] == [1]
