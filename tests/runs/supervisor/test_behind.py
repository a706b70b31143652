"""Whose turn it is among what could not be acted on."""

from runs.supervisor import behind
from runs.supervisor.behind import Behind


def test_what_was_tried_last_comes_last_and_what_was_acted_on_is_forgotten():
    memory = Behind()
    for row in ("a", "b", "c", "a"):
        memory.put("timer", row)
    assert memory.of("timer") == ["b", "c", "a"]
    memory.drop("timer", "c")
    memory.drop("timer", "never seen")
    assert memory.of("timer") == ["b", "a"]
    assert memory.of("deadline") == []


def test_it_remembers_a_bounded_number_of_rows(monkeypatch):
    monkeypatch.setattr(behind, "MOST_ROWS", 2)
    memory = Behind()
    for row in range(5):
        memory.put("timer", row)
    assert memory.of("timer") == ["3", "4"]
