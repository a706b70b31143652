"""Addresses carry no token, and a transport is left only where it is blocked and has never worked."""

import pytest

from runs.reading.errors import Cut, OutOfStep
from runs.reading.machine import Reading
from streaming.client.line import Address, Ladder, Line

CURSOR = "st_" + "2" * 32 + ":5"


@pytest.mark.parametrize("base", ["http://host:8000", "https://host/below/"])
def test_addresses_lie_below_the_base_and_never_hold_the_token(base: str) -> None:
    address = Address(base, "run_1/../x", "outlive_secret", is_tail=True)
    urls = [
        address.socket_url(CURSOR), address.socket_url(None), address.stream_request(CURSOR)[0],
        address.page_url(CURSOR, wait_seconds=20, wants_snapshot=False),
        address.page_url(CURSOR, wait_seconds=20, wants_snapshot=True),
    ]  # fmt: skip
    assert not any("secret" in url for url in urls)
    assert all(url.split("://")[1].startswith(base.split("://")[1].rstrip("/")) for url in urls)
    assert urls[0].startswith(base.replace("http", "ws").rstrip("/") + "/ws/v1/runs/run_1%2F..%2Fx/?after=st_")
    assert "tail=1" in urls[0]
    assert address.headers == {"Authorization": "Bearer outlive_secret"}
    assert address.stream_request(CURSOR)[1]["Last-Event-ID"] == CURSOR


def test_what_is_no_address_is_refused() -> None:
    for base in ("host:8000", "ws://host", ""):
        with pytest.raises(ValueError, match="no http"):
            Address(base, "run_1", "t")


def test_a_blocked_transport_gives_way_to_the_next_and_at_last_to_the_first() -> None:
    ladder = Ladder("auto")
    seen = []
    for _ in range(4):
        seen.append(ladder.transport)
        ladder.failed(Cut("403", is_blocked=True))
    assert seen == ["websocket", "sse", "pages", "websocket"]


def test_a_server_that_is_away_and_a_transport_that_worked_move_nothing() -> None:
    ladder = Ladder("auto")
    ladder.failed(Cut("connection refused"))
    assert ladder.transport == "websocket"
    ladder.worked()
    ladder.failed(Cut("403", is_blocked=True))
    assert ladder.transport == "websocket"


def test_one_transport_that_was_chosen_stays() -> None:
    ladder = Ladder("sse")
    ladder.failed(Cut("blocked", is_blocked=True))
    assert ladder.transport == "sse"


@pytest.mark.parametrize("cut", [None, OutOfStep("html")])
def test_what_ended_before_ready_without_sense_was_blocked(cut: Cut | None) -> None:
    line = Line(Address("http://host", "run_1", "t"), Reading(), Ladder("auto"))
    line.reading.begin()
    judged = line.judge(cut)
    assert judged is not None
    assert judged.is_blocked
    assert line.ladder.transport == "sse"


def test_what_ended_after_ready_was_not() -> None:
    line = Line(Address("http://host", "run_1", "t"), Reading(), Ladder("auto"))
    line.reading.begin()
    line.reading.take({"type": "ready"})
    line.ended()
    assert line.judge(None) is None
    line.reading.begin()
    line.judge(Cut("x", is_blocked=True))
    assert line.ladder.transport == "websocket"


@pytest.mark.parametrize("silence", [2.0, 35.0, 300.0])
def test_whatever_is_called_silence_a_page_and_a_sign_of_life_come_before_it(silence: float) -> None:
    line = Line(Address("http://host", "run_1", "t"), Reading(), Ladder("auto"), silence)
    assert line.timeout.read == silence
    assert line.page_seconds <= silence / 2
    assert line.page_seconds <= 25  # the server waits no longer
    assert line.keepalive_seconds <= silence
