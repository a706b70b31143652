"""One connection at a ward, over a real socket pair."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tools.processes.terminals import frames
from tools.processes.terminals.attached import MOST_WAITING_BYTES, Attached
from tools.processes.terminals.ring import ByteRing


@pytest.fixture
def pair() -> Iterator[tuple[Attached, socket.socket]]:
    """A viewer at a ward, and the other end of its socket."""
    ours, theirs = socket.socketpair()
    with contextlib.closing(theirs):
        one = Attached(ours)
        one.role = "viewer"
        yield one, theirs
        one.close()


def test_news_do_not_pile_up_for_whoever_does_not_read(pair: tuple[Attached, socket.socket]) -> None:
    """A pilot who resized 30,000 times made a ward 1.5 MB larger for each viewer that hung, without a bound."""
    one, _theirs = pair
    ring, most = ByteRing(), 0
    for number in range(50_000):
        one.say(frames.NEWS, {"rows": 1 + number % 1000, "cols": 80, "at": ring.end})
        one.flush(ring)
        most = max(most, one.waiting_bytes)
    assert one.is_over
    assert most <= MOST_WAITING_BYTES + 1024


def test_output_behind_which_news_wait_lets_nobody_go(pair: tuple[Attached, socket.socket]) -> None:
    """Output waits in the ring, so a viewer that reads late still gets all of it, and its news."""
    one, theirs = pair
    ring = ByteRing()
    for _ in range(16):
        ring.append(b"x" * 65536)
        one.say(frames.NEWS, {"rows": 24, "cols": 80, "at": ring.end})
        one.flush(ring)
    assert not one.is_over
    got, reader = 0, frames.Reader()
    while got < ring.end:
        for kind, body in reader.feed(theirs.recv(1 << 20)):
            got += len(frames.read_bytes(body)[1]) if kind == frames.OUTPUT else 0
        one.flush(ring)
    assert got == 16 * 65536
