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
from tests.streaming.hostile import EMPTY, JSON, Hostile, answer
from tests.streaming.writing import deltas, emit, end, join_deltas, start_new_attempt

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

    def until(self, is_it: Any, seconds: float = 60.0) -> dict[str, Any]:
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
def a_page(site: Site | Hostile, run: Run, token: str, query: str = "tail=1", **environment: str) -> Iterator[Page]:
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
        process.wait(60)
        page._reader.join(60)
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


def test_a_compacted_text_follows_a_cursor_before_it_without_a_new_view(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        emit(run, Fact("usage", {}))
        page.until_seq(8)
        page.command("cut")
        page.until_state("reconnecting")
        emit(run, *deltas(9, start=5), rings=False)
        assert join_deltas(run) == [1, 2, 7, 8, 17]
        page.command("retry")
        page.until_seq(17)
        assert (page.view, 17) == view_of(run)
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


QUICK = json.dumps({"timing": {"first_delay": 20, "last_delay": 60, "poll": 30}})
BLOCKED = {"SOCKET_PATH": "/blocked/", "OPTIONS": QUICK}  # the address of the socket leads nowhere


def asked_by(page: Page) -> list[str]:
    page.command("asked")
    return [url.split("events")[1] for url in page.until(lambda told: "asked" in told)["asked"]]


def test_a_polling_page_whose_place_is_gone_takes_the_view_and_does_not_read_from_the_start(
    site: Site, run: Run, owner: Actor
) -> None:
    with a_page(site, run, token_of(owner), **BLOCKED) as page:
        page.until_seq(7)
        last = emit(run, *deltas(20, start=5))
        Run.objects.filter(pk=run.pk).update(floor_seq=last - 2)
        page.until_seq(last)
        assert (page.view, last) == view_of(run)
        emit(run, *deltas(1, start=25))
        page.until_seq(last + 1)
        asked = asked_by(page)
        assert asked[0] == "?snapshot=1"
        assert asked.count("?snapshot=1") == 2
        assert [told["rebuilt"] for told in page.told if "view" in told].count(True) == 2


def test_a_polling_page_goes_over_to_a_new_attempt(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner), **BLOCKED) as page:
        page.until_seq(7)
        end(run)
        page.until(lambda told: told.get("view", {}).get("status") == "cancelled")
        stream = start_new_attempt(run)
        page.until(lambda told: told.get("view", {}).get("stream_id") == text_id("st", stream))
        assert page.view == view_of(run)[0]


def test_a_polling_page_without_a_tail_is_over_with_the_run(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner), query="role=viewer", **BLOCKED) as page:
        page.until_seq(7)
        end(run)
        page.until_state("ended")
        assert page.view == view_of(run)[0]


def test_a_page_that_comes_back_far_behind_counts_what_it_catches_up_with(site: Site, run: Run, owner: Actor) -> None:
    view, seq = view_of(run)
    last = emit(run, *deltas(3000, start=5, pad=200))
    with a_page(site, run, token_of(owner), OPTIONS=json.dumps({"view": view})) as page:
        page.until_state("live")
        counted = [(told["done"], told["total"]) for told in page.told if told.get("state") == "catching_up"]
        assert counted[0] == (0, last - seq)
        assert counted == sorted(counted)
        assert counted[-1] == (last - seq, last - seq)
        assert len(counted) > 2
        assert (page.view, last) == view_of(run)
        assert not any(told["rebuilt"] for told in page.told if "view" in told)


def test_a_load_and_a_new_attempt_have_nothing_to_catch_up_with(site: Site, run: Run, owner: Actor) -> None:
    with a_page(site, run, token_of(owner)) as page:
        page.until_state("live")
        end(run)
        page.until(lambda told: told.get("view", {}).get("status") == "cancelled")
        stream = start_new_attempt(run)
        page.until(lambda told: told.get("view", {}).get("stream_id") == text_id("st", stream))
        page.until_state("live")
        counted = {(told["done"], told["total"]) for told in page.told if told.get("state") == "catching_up"}
        assert counted == {(0, 0)}


def test_a_tab_that_is_shown_again_comes_back_at_once_and_has_kept_its_place(
    site: Site, run: Run, owner: Actor
) -> None:
    """The timers of a hidden tab sleep: here the next try by itself is minutes away."""
    slow = json.dumps({"timing": {"first_delay": 300_000, "last_delay": 600_000}})
    with a_page(site, run, token_of(owner), OPTIONS=slow) as page:
        page.until_state("live")
        page.command("hide")
        page.command("cut")
        page.until_state("reconnecting")
        last = emit(run, *deltas(30, start=5))
        page.command("show")
        page.until_seq(last)
        assert (page.view, last) == view_of(run)
        assert sum("view" in told and told["rebuilt"] for told in page.told) == 1  # only the first load


def test_nonsense_and_a_socket_that_says_nothing_lead_to_the_next_connection(
    site: Site, run: Run, owner: Actor
) -> None:
    quick = json.dumps({"timing": {"first_delay": 20, "last_delay": 60, "tick": 50, "opening": 400, "dead": 400}})
    with a_page(site, run, token_of(owner), OPTIONS=quick) as page:
        page.until_state("live")
        page.until_state("reconnecting")  # heartbeats come each 15 s, and this page waits for 0.4 s only
        page.until_state("live")
        page.command("garble")
        page.until_state("reconnecting")
        page.until_state("live")
        assert page.view == view_of(run)[0]


def test_a_polling_page_whose_server_is_away_does_not_say_that_it_refreshes(hostile: Hostile, run: Run) -> None:
    page_of_events = answer("200 OK", EMPTY, JSON)
    hostile.bytes = page_of_events
    with a_page(hostile, run, "t", OPTIONS=QUICK) as page:
        page.until_state("polling")
        hostile.bytes = answer("503 Service Unavailable")
        page.until_state("reconnecting")
        page.command("sent")
        page.until(lambda told: "sent" in told)
        page.until_state("reconnecting")
        assert page.states[-2:] == ["reconnecting", "reconnecting"], "it stays so with each further try"
        hostile.bytes = page_of_events
        page.until_state("polling")


@pytest.mark.parametrize("nonsense", [answer("410 Gone", b"{}", JSON), answer("200 OK", EMPTY, JSON)])
def test_a_polling_page_does_not_ask_in_a_circle(hostile: Hostile, run: Run, nonsense: bytes) -> None:
    """One page is asked for, and the next one is a minute away, however often the socket is tried meanwhile."""
    hostile.bytes = nonsense
    slow_poll = json.dumps({"timing": {"first_delay": 20, "last_delay": 60, "poll": 60_000}})
    with a_page(hostile, run, "t", OPTIONS=slow_poll) as page:
        for _ in range(8):
            page.until_state("polling")
        assert asked_by(page) == ["?snapshot=1"]


def test_a_page_that_is_asked_to_stay_away_for_ever_comes_back_after_an_hour(hostile: Hostile, run: Run) -> None:
    """Timers know no number above 2^31 ms and would fire at once."""
    closing = json.dumps({"type": "closing", "code": 4013, "reason": "x", "retry_after": 1e15}).encode()
    frame = b"\x81\x7e\x00\x7e" + closing.ljust(126)
    hostile.bytes = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + frame
    with a_page(hostile, run, "t") as page:
        told = page.until_state("reconnecting")
        assert told["retry_at"] / 1000 - time.time() == pytest.approx(3600, abs=100)
