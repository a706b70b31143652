"""A checker of small models: breadth first, so that the trace to what is broken is a shortest one.

A model gives a start, the moves from a state, and what must be true of every state. A goal says that some actors alone
can bring something about from wherever the model may get to; everybody else may stop for ever at any point.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Move[S]:
    """What one actor may do next. breaks: the rule that doing so breaks, None where it is allowed."""

    what: str
    actor: str
    to: S
    breaks: str | None = None


@dataclass(frozen=True, slots=True)
class Goal[S]:
    """What these actors can always bring about."""

    what: str
    is_reached: Callable[[S], bool]
    actors: frozenset[str]


@dataclass(slots=True)
class Found:
    """broken: what does not hold, None if all does; trace: the moves that lead there."""

    states: int = 0
    broken: str | None = None
    trace: list[str] = field(default_factory=list)


def explore[S: Hashable](
    start: S, moves: Callable[[S], Iterator[Move[S]]], check: Callable[[S], str | None], goals: list[Goal[S]]
) -> Found:
    """Walk every state that can be reached, and stop at the first thing that does not hold."""
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    back: dict[S, list[tuple[str, S]]] = {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if broken := check(state):
            return Found(len(came_from), broken, _trace(came_from, state))
        for move in moves(state):
            if move.breaks:
                return Found(len(came_from), move.breaks, [*_trace(came_from, state), move.what])
            if move.to not in came_from:
                came_from[move.to] = (state, move.what)
                queue.append(move.to)
            back.setdefault(move.to, []).append((move.actor, state))
    for goal in goals:
        able = _able(came_from, back, goal)
        for state in came_from:
            if state not in able:
                return Found(len(came_from), f"stuck: {goal.what}", _trace(came_from, state))
    return Found(len(came_from))


def _able[S: Hashable](came_from: dict[S, object], back: dict[S, list[tuple[str, S]]], goal: Goal[S]) -> set[S]:
    """Find the states from which the goal's actors can get to it."""
    able = {state for state in came_from if goal.is_reached(state)}
    work = list(able)
    while work:
        for actor, before in back.get(work.pop(), []):
            if actor in goal.actors and before not in able:
                able.add(before)
                work.append(before)
    return able


def _trace[S](came_from: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    trace: list[str] = []
    while (step := came_from[state]) is not None:
        state, what = step
        trace.append(what)
    return trace[::-1]
