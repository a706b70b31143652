"""Decisions of one statement, run on an autocommit connection: one round trip instead of three."""

from typing import Any

from runs.decisions.core import Decision, Query


def only_query(decision: Decision[Any]) -> Query:
    """Return the decision's single query."""
    query = next(decision)
    assert isinstance(query, Query)  # an effect before the first statement would have nothing to tell
    return query


def result_of[T](decision: Decision[T], rows: list[dict[str, Any]]) -> T:
    """Give the decision its rows and return what it makes of them."""
    try:
        decision.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a hot decision is one statement")  # it would need a transaction of its own
