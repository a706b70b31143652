"""The rules of a reader hold together beside trimming and joining, and each of them is needed."""

import pytest

from tests.model.checker import Found, explore
from tests.model.reader import RULES, Reader, State


def walk(*off: str) -> Found:
    reader = Reader(off)
    return explore(State(), reader.moves, reader.check, reader.goals)


def test_all_rules_together_hold() -> None:
    found = walk()
    assert (found.broken, found.trace) == (None, [])
    assert found.states > 10_000


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_something_breaks(rule: str) -> None:
    found = walk(rule)
    assert found.broken is not None, f"nothing needs the rule: {RULES[rule]}"


def test_a_reader_in_the_middle_of_a_text_that_is_joined_gets_a_snapshot() -> None:
    """As tests/streaming/test_follow.py sees on the real code."""
    reader, state = Reader(), State()
    for what in (
        "append 1, no bell", "append 2, no bell", "subscribe", "look at the floor", "page (1, 1)", "look at the floor",
        "page (2, 2)", "append 3, no bell", "append 4, no bell", "checkpoint at 4", "join the text",
        "look at the floor", "the page does not follow: gap", "snapshot at (1, 4)",
    ):  # fmt: skip
        (state,) = {move.to for move in reader.moves(state) if move.what == what}
    assert state.view == (1, 4)
