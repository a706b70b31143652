"""A reader: waking, the window of acknowledgements, eviction."""

import asyncio

from streaming.protocol import Close
from streaming.reader import DONE, SLOW, STUCK_SECONDS, WINDOW_BYTES, WINDOW_EVENTS, Reader, Window
from streaming.wires import TEXT


def test_the_window_does_not_count_for_clients_that_never_acknowledge() -> None:
    window = Window()
    for seq in range(1, 5 * WINDOW_EVENTS):
        window.sent(seq, 1000)
    assert window.is_open


def test_the_window_closes_on_bytes_and_opens_on_an_acknowledgement() -> None:
    window = Window()
    window.ack(0)
    window.sent(10, WINDOW_BYTES)
    assert not window.is_open
    window.ack(9)
    assert not window.is_open
    window.ack(10)
    assert window.is_open


def test_the_window_closes_on_events() -> None:
    window = Window()
    window.ack(0)
    window.sent(WINDOW_EVENTS, 1)
    assert not window.is_open
    window.ack(1)
    assert window.is_open


def test_a_snapshot_opens_the_window_anew() -> None:
    window = Window()
    window.ack(0)
    window.sent(5, WINDOW_BYTES)
    window.restart(1_000_000)
    assert window.is_open
    window.sent(1_000_001, 10)
    assert window.is_open


async def test_a_poke_before_the_wait_is_not_lost() -> None:
    reader = Reader(TEXT)
    reader.poke()
    await asyncio.wait_for(reader.wait(), 60)
    waiting = asyncio.ensure_future(reader.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    reader.poke()
    await asyncio.wait_for(waiting, 60)


def test_the_first_reason_to_end_stays() -> None:
    reader = Reader(TEXT)
    reader.end(SLOW)
    reader.end(DONE)
    assert reader.ending is not None
    assert reader.ending.code == Close.SLOW


def test_a_send_that_does_not_come_back_evicts_once() -> None:
    reader, evicted = Reader(TEXT), []
    reader.evict = lambda: evicted.append(1)
    reader.check(100.0)
    reader.sending_since = 100.0
    reader.check(100.0 + STUCK_SECONDS)
    assert evicted == []
    reader.check(100.1 + STUCK_SECONDS)
    reader.check(200.0 + STUCK_SECONDS)
    assert evicted == [1]
    assert reader.ending == SLOW
