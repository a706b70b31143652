"""Which request a switch applies to."""

from tools.target.switches import GOOD, SwitchBoard, Switches


def test_board_counts_down_and_then_everything_is_off() -> None:
    board = SwitchBoard()
    board.now = Switches(refuse=True, times=2)
    assert [board.take("k").refuse for _ in range(3)] == [True, True, False]
    assert board.now == GOOD


def test_request_that_is_not_concerned_does_not_count() -> None:
    board = SwitchBoard()
    board.now = Switches(refuse=True, times=1, key_prefix="a")
    assert board.take("b") == GOOD
    assert board.take("a", lookup=True) == GOOD
    assert board.take("a").refuse
