"""Who an actor is, by the letter that schedules and traces name it by."""

from typing import Any

from tests.explore.orders import Scenario

NAMES = {"W": "holder", "V": "worker", "U": "worker", "C": "canceller", "S": "supervisor", "Z": "supervisor",
         "T": "time", "O": "operator", "P": "person", "Q": "person", "A": "page", "D": "page", "R": "page"}  # fmt: skip


def scenario(name: str, arrange: Any, check: Any = None, **actors: Any) -> Scenario:
    """Make a scenario of actors by letter; W, V and U have the workers' pool, all others Django's connection."""
    people = {letter: (NAMES[letter], script, letter in "WVU") for letter, script in actors.items()}
    return Scenario(name, arrange, people, check)
