"""Input is numbered: nothing of it is lost, and nothing goes in twice."""

import os
import tty

import pytest

from tools.processes.terminals.typing_in import Input

LATER = 10.0


@pytest.fixture
def pair():
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    yield Input(master), slave
    for fd in (master, slave):
        os.close(fd)


def test_what_was_taken_before_is_taken_no_second_time(pair) -> None:
    typed, slave = pair
    assert typed.take(0, b"hello", LATER)
    assert typed.take(0, b"hello, wor", LATER)
    assert typed.take(3, b"lo", LATER)
    assert typed.take(10, b"ld", LATER)
    assert typed.write()
    assert os.read(slave, 100) == b"hello, world"
    assert (typed.accepted, typed.written, typed.waits) == (12, 12, 0)


def test_a_hole_is_refused(pair) -> None:
    typed, _ = pair
    assert not typed.take(1, b"x", LATER)
    assert typed.accepted == 0


def test_a_terminal_that_takes_no_more_is_waited_for(pair) -> None:
    typed, slave = pair
    paste = bytes(range(32, 127)) * 2000
    assert typed.take(0, paste, LATER)
    got = b""
    while len(got) < len(paste):
        typed.write()
        got += os.read(slave, 65536)
    assert got == paste


def test_after_it_is_shut_nothing_goes_in_any_more(pair) -> None:
    typed, slave = pair
    typed.take(0, b"rm -rf /\n", LATER)
    typed.shut()
    assert typed.take(0, b"again", LATER)
    assert not typed.write()
    os.set_blocking(slave, False)
    with pytest.raises(BlockingIOError):
        os.read(slave, 10)
    assert typed.accepted == 0


def test_what_has_not_gone_in_by_its_time_never_does_and_is_asked_for_again(pair) -> None:
    """H5: whoever let it through, and froze, stands for it no longer."""
    typed, slave = pair
    assert typed.take(0, b"first", LATER)
    assert not typed.forget_void(LATER - 0.1)
    assert typed.write()
    assert typed.take(5, b"second", LATER)
    assert typed.take(11, b"third", LATER + 5)
    assert typed.forget_void(LATER)
    assert not typed.write()
    assert (typed.accepted, typed.written) == (5, 5)
    assert not typed.take(16, b"too far", LATER + 5)
    assert typed.take(5, b"secondthird", LATER + 5)
    assert not typed.forget_void(LATER + 4)
    assert typed.write()
    gone_in = b""
    while len(gone_in) < 16:  # a read gives what is there
        gone_in += os.read(slave, 100)
    assert gone_in == b"firstsecondthird"


def test_what_went_in_in_time_is_not_asked_for_again(pair) -> None:
    typed, _ = pair
    assert typed.take(0, b"in time", LATER)
    assert typed.write()
    assert not typed.forget_void(LATER + 1)
