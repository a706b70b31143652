"""Walk the orders of a scenario: each order is run from the same rows, and checked after each of its commits.

An order is a schedule: one letter for each step, saying whose it was. Where a schedule ends, whoever is at work goes
on until it is done or blocked. So an order is told by the steps up to its last switch, and leaving one out nowhere and
walking none twice needs no memory of what was walked: each order hands on those that leave it at a later step.

Orders with few switches come first (most races need one or two), in an order of their own that a seed decides.
"""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import psycopg

from tests.explore.actors import Actor, Connection, Script, first_to_end
from tests.explore.invariants import READ_TREE, Rows, check_change, check_effects, check_rows, check_tree
from tests.explore.table_rows import RESET
from tests.explore.target import Target

MOST_STEPS = 300

type Runs = dict[str, Rows]  # by id


@dataclass
class World:
    """What the actors of one order share besides the database."""

    run_id: UUID
    facts: dict[Any, Any]
    target: Target = field(default_factory=Target)
    results: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)  # by letter: decisions and their values

    def __getattr__(self, name: str) -> Any:
        try:
            return self.facts[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True)
class Scenario:
    """Actors that meet on one run.

    arrange: makes the rows, returns {"run": Run, ...}; actors: by letter: (name, script, is_worker);
    check: asserts what is more to say at the end of an order.
    """

    name: str
    arrange: Callable[[Any], dict[str, Any]]
    actors: dict[str, tuple[str, Callable[[World], Script], bool]]
    check: Callable[[World, Rows], None] | None = None


@dataclass
class Order:
    """One order that was walked: at each step who could go, and who went."""

    chosen: list[str] = field(default_factory=list)
    could: list[str] = field(default_factory=list)
    did: list[tuple[Actor, str, Any]] = field(default_factory=list)

    @property
    def schedule(self) -> str:
        """Return the letters of all steps."""
        return "".join(self.chosen)

    def note(self, actor: Actor) -> None:
        """Keep what an actor has just done."""
        self.did += [(actor, what, result) for what, result in actor.hush()]

    def tell(self) -> list[str]:
        """Write the order for people, a line for each step."""
        return [
            f"{actor.letter} {actor.name:10} {' '.join(what.split()):.80} -> {result!r:.100}"
            for actor, what, result in self.did
        ]


class Failed(AssertionError):
    """An order broke an invariant. `trace` replays it: `make explore TRACE=<trace>`."""

    def __init__(self, trace: str, error: BaseException, order: Order) -> None:
        super().__init__(f"{trace}\n{type(error).__name__}: {error}\n" + "\n".join(order.tell()))
        self.trace, self.error = trace, error


class Stage:
    """The connections of a scenario's actors, and one that watches.

    is_fine: others may come between any two statements. Else a transaction that has locked its row is left alone until
    its commit: who comes then has waited behind all of it, and who comes after its first statement behind the lock.
    """

    def __init__(self, scenario: Scenario, facts: dict[str, Any], watch: Connection, actors: list[Actor]) -> None:
        self.scenario, self.facts, self.watch, self.actors = scenario, facts, watch, actors
        self._cursor = watch.cursor()
        self.is_fine = False

    def play(self, prefix: str, *, known: int = 0) -> Order:
        """Walk the order that begins with these steps. Raises: Failed.

        Args: known: how many of its first steps were walked and checked before, in the order that it leaves.
        """
        self._cursor.execute(RESET)
        world = World(self.facts["run"].pk, dict(self.facts))
        for path in self.facts.get("has_landed", ()):
            world.target.land(f"{world.run_id.hex}:{path}")
        order = Order()
        try:
            for actor in self.actors:
                actor.start(self.scenario.actors[actor.letter][1](world))
            runs = self._play(prefix, order, world, known)
            for rows in runs.values():
                check_effects(rows, world.target.landed)
            rows = runs[str(world.run_id)]
            if self.scenario.check is not None:
                world.results = {actor.letter: actor.results for actor in self.actors}
                self.scenario.check(world, rows)
        except (AssertionError, psycopg.Error, RuntimeError, LookupError, TypeError) as error:
            for actor in self.actors:
                order.note(actor)
                actor.abandon()
            raise Failed(f"{self.scenario.name}:{order.schedule}", error, order) from error
        return order

    def _play(self, prefix: str, order: Order, world: World, known: int) -> Runs:
        by_letter = {actor.letter: actor for actor in self.actors}
        before: Runs | None = None
        while not all(a.is_done for a in self.actors):
            ready = [a.letter for a in self.actors if not a.is_done and not a.is_blocked]
            if not ready:
                self._wait(order)
                before = None  # there may have been a commit
                continue
            step = len(order.chosen)
            last = order.chosen[-1] if order.chosen else ready[0]
            usual = last if last in ready else ready[0]
            letter = prefix[step] if step < len(prefix) and prefix[step] in ready else usual
            order.chosen.append(letter)
            is_inside = letter == usual == last and by_letter[letter].is_inside
            order.could.append(letter if is_inside and not self.is_fine else "".join(ready))
            assert step < MOST_STEPS, "this order has no end"
            actor = by_letter[letter]
            if step >= known and before is None:
                before = self._read(world)
            actor.step(self.watch, may_wait=any(a.holds_rows for a in self.actors if a is not actor))
            order.note(actor)
            if actor.is_blocked:
                order.did.append((actor, "waits for a row", ""))
            if actor.has_committed:
                before = self._after(order, world, before, self._free(actor, order))
        return before or self._read(world)

    def _wait(self, order: Order) -> None:
        """Let those go on who only waited for a moment, where everybody was seen to wait.

        Nobody's commit has freed them: a queue before a row got shorter, or a rule was broken and all was rolled back.
        Of those who wait for each other PostgreSQL ends one. Raises: psycopg.errors.DeadlockDetected.
        """
        for actor in first_to_end([a for a in self.actors if a.is_blocked]):
            actor.settle(self.watch)
            order.note(actor)

    def _free(self, actor: Actor, order: Order) -> int:
        """Let those go on whom a commit has freed, and whom they free in turn. Returns how many commits there were."""
        commits = news = 1
        while news:
            news = 0
            for waiting in [a for a in self.actors if a.is_blocked and a is not actor]:
                waiting.has_committed = False
                if waiting.settle(self.watch):
                    order.note(waiting)
                    news += waiting.has_committed
            commits += news
        return commits

    def _after(self, order: Order, world: World, before: Runs | None, commits: int) -> Runs | None:
        """Check what one or more commits left behind."""
        if before is None:
            return None
        after = self._read(world)
        check_tree(after.values())
        for run_id, rows in after.items():
            check_rows(rows)
            if commits == 1 and run_id in before:
                check_change(before[run_id], rows)
        return after

    def _read(self, world: World) -> Runs:
        """Read the run and everything below it."""
        self._cursor.execute(READ_TREE, {"run": world.run_id})
        return {rows["run"]["id"]: rows for rows in self._cursor.fetchall()}


@dataclass
class Walk:
    """How far a walk has got. is_complete: no order is left out."""

    scenario: str
    schedules: list[str] = field(default_factory=list)
    switches: int = 0
    is_complete: bool = False
    seconds: float = 0.0

    @property
    def orders(self) -> int:
        """Return how many orders were walked."""
        return len(self.schedules)


def walk(stage: Stage, *, limit: int, seed: int = 0, seconds: float | None = None) -> Walk:
    """Walk orders, those with few switches first, until none is left or the limit is reached. Raises: Failed."""
    random, begun = Random(seed), time.monotonic()
    result = Walk(stage.scenario.name)
    frontier: list[tuple[int, float, str]] = [(0, 0.0, "")]
    while frontier and result.orders < limit and (seconds is None or time.monotonic() - begun < seconds):
        switches, _, prefix = heapq.heappop(frontier)
        order = stage.play(prefix, known=max(0, len(prefix) - 1))
        result.schedules.append(order.schedule)
        result.switches = switches
        for step in range(len(prefix), len(order.chosen)):
            # A step in the tail goes on with the one before, so leaving it costs a switch where that one could go on.
            could, chosen = order.could[step], order.chosen[step]
            is_switch = step > 0 and order.chosen[step - 1] in could
            for other in could:
                if other != chosen:
                    branch = order.schedule[:step] + other
                    heapq.heappush(frontier, (switches + is_switch, random.random(), branch))
    result.is_complete = not frontier
    result.seconds = time.monotonic() - begun
    return result
