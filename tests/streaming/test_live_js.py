"""live.js in Node against a real server: views, cuts, snapshots, states, acknowledgements."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any

import pytest

from runs.access import Actor
from runs.decisions.core import Fact
from runs.ids import text_id
from runs.models import Run
from runs.selectors import view_of
from tests import builders
from tests.streaming.conftest import ROOT, Site, token_of
from tests.streaming.writing import deltas, emit, end

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not on PATH: live.js is not run"),
]


class Page:
    """live.js in a Node process; `view` and `state` are the newest that it told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.view: dict[str, Any] = {}
        self.states: list[str] = []
        self.told: list[dict[str, Any]] = []
        self._lines: Queue[str] = Queue()
        assert process.stdout
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)

    def command(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def until(self, is_it: Any, seconds: float = 15.0) -> dict[str, Any]:
        """Read what the page tells until `is_it(told)`."""
        end_at = time.monotonic() + seconds
        while True:
            try:
                told = json.loads(self._lines.get(timeout=max(0.0, end_at - time.monotonic())))
            except Empty:
                raise AssertionError(f"not in {seconds} s; states {self.states}") from None
            self.told.append(told)
            self.view = told.get("view", self.view)
            if "state" in told:
                self.states.append(told["state"])
            if is_it(told):
                return dict(told)

    def until_state(self, state: str) -> dict[str, Any]:
        return self.until(lambda told: told.get("state") == state)

    def until_seq(self, seq: int) -> None:
        if self.view.get("seq", 0) < seq:
            self.until(lambda told: told.get("view", {}).get("seq", 0) >= seq)


@contextmanager
def a_page(site: Site, run: Run, token: str, query: str = "tail=1", **environment: str) -> Iterator[Page]:
    script = ROOT / "tests/streaming/follow_in_node.mjs"
    live = ROOT / "streaming/static/streaming/live.js"
    process = subprocess.Popen(
        ["node", str(script), str(live), site.base, text_id("run", run.pk), token, query],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    page = Page(process)
    try:
        yield page
    finally:
        process.kill()
        process.wait(10)
        page._reader.join(10)
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def run(owner: Actor) -> Run:
    run = builders.a_run(owner)
    emit(run, Fact("text.start", {"message_id": "msg_1", "role": "assistant"}), *deltas(5), rings=False)
    return run


def test_a_page_loads_by_snapshot_and_then_lives(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        assert page.told[0]["state"] == "connecting"
        assert (page.view, 7) == view_of(run)
        emit(run, *deltas(3, start=5))
        page.until_seq(10)
        assert (page.view, 10) == view_of(run)
        assert page.view["messages"][0]["text"] == "w0 w1 w2 w3 w4 w5 w6 w7 "


def test_a_cut_page_comes_back_with_its_cursor_and_repeats_nothing(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        for i in range(3):
            page.command("cut")
            page.until_state("reconnecting")
            last = emit(run, *deltas(4, start=5 + 4 * i))
            page.command("retry")
            page.until_seq(last)
            page.until_state("live")
        assert (page.view, last) == view_of(run)
        assert sum("view" in told and told["rebuilt"] for told in page.told) == 1  # only the first load


def test_it_tries_again_by_itself(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        page.command("cut")
        told = page.until_state("reconnecting")
        assert told["retry_at"] > time.time() * 1000 - 1000
        page.until_state("live")


def test_the_end_of_a_run_without_a_tail_is_final(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner), query="role=viewer") as page:
        page.until_state("live")
        end(run)
        page.until_state("ended")
        assert page.view["status"] == "cancelled"


def test_a_page_without_rights_says_so_and_stops(site: Site, run: Run, outsider: Actor) -> None:
    with a_page(site, run, token_of(outsider)) as page:
        page.until_state("forbidden")
    with a_page(site, run, "outlive_wrong") as page:
        page.until_state("signed_out")


def test_it_acknowledges_what_it_has_applied(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        last = emit(run, *deltas(200))
        page.until_seq(last)
        page.command("sent")
        sent = page.until(lambda told: "sent" in told)["sent"]
        acks = [frame["seq"] for frame in sent if frame["type"] == "ack"]
        assert acks == sorted(acks)
        assert acks[0] == 7
        assert acks[-1] == last


def test_without_a_socket_it_polls_pages(site: Site, run: Run, owner: Actor) -> None:
    """The address of the socket leads nowhere, as behind a proxy that knows no WebSocket."""
    with a_page(site, run, token_of(owner), SOCKET_PATH="/blocked/") as page:
        page.until_state("polling")
        page.until_seq(7)
        emit(run, *deltas(2, start=5))
        page.until_seq(9)
        assert (page.view, 9) == view_of(run)
