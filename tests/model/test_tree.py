"""The rules of a tree in doubt hold together, and each of them is needed: without it the checker finds a trace."""

import pytest

from tests.model.checker import explore
from tests.model.tree import RULES, State, Tree


def walk(*off: str):
    tree = Tree(off)
    return explore(State(), tree.moves, tree.check, tree.goals)


def test_all_rules_together_hold():
    found = walk()
    assert (found.broken, found.trace) == (None, [])
    assert found.states > 200


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_something_breaks(rule):
    found = walk(rule)
    assert found.broken is not None, f"nothing needs the rule: {RULES[rule]}"


def test_a_run_in_doubt_waits_for_its_child_and_is_put_away_after_it():
    tree = Tree()
    state = State()
    for what in ("dispatch", "spawn", "no receipt", "look", "wait", "child ends: completed"):
        (state,) = {move.to for move in tree.moves(state) if move.what == what}
    assert (state.parent, state.unknown_ops) == ("waiting", 1)
    for what in ("outbox: the child's end is counted", "look", "park", "verdict"):
        (state,) = {move.to for move in tree.moves(state) if move.what == what}
    assert state.parent == "completed"
