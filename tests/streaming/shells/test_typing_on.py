"""Input on its way: numbered, kept until it has gone in, given again where the terminal asks for it."""

from streaming.shells.protocol import UNTAKEN_BYTES
from streaming.shells.typing_on import AHEAD_BYTES, Typing


def a_typing(taken: int = 0) -> Typing:
    typing = Typing()
    typing.begin(taken)
    return typing


def test_what_was_sent_before_is_kept_once() -> None:
    typing = a_typing(10)
    assert typing.add(10, b"hello")
    assert typing.add(8, b"..hello you")
    assert typing.next() == (10, b"hello you")
    assert not typing.add(20, b"too far")
    assert typing.end == 19


def test_the_terminal_is_given_only_so_much_ahead() -> None:
    typing = a_typing()
    typing.add(0, b"x" * (AHEAD_BYTES + 10))
    assert typing.next() == (0, b"x" * AHEAD_BYTES)
    typing.give(AHEAD_BYTES)
    assert typing.next() is None
    typing.take(4)
    assert typing.next() == (AHEAD_BYTES, b"x" * 4)


def test_what_the_terminal_did_not_let_in_is_given_again() -> None:
    typing = a_typing()
    typing.add(0, b"abcdef")
    typing.give(6)
    typing.take(2)
    typing.again(3)
    assert typing.next() == (3, b"def")
    typing.again(0)
    assert typing.next() == (2, b"cdef")


def test_after_it_is_shut_nothing_is_kept() -> None:
    typing = a_typing()
    typing.add(0, b"abc")
    typing.shut()
    assert typing.add(0, b"abc")
    assert typing.next() is None


def test_a_client_that_sends_without_end_is_noticed() -> None:
    typing = a_typing()
    typing.add(0, b"x" * UNTAKEN_BYTES)
    assert not typing.is_full
    typing.add(UNTAKEN_BYTES, b"x")
    assert typing.is_full
