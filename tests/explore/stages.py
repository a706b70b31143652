"""Set a scenario up on the database of Django's connection, walk its orders, and take it down."""

import contextlib
from collections.abc import Iterator
from typing import Any

from runs.database import conninfo
from tests.builders import a_tenant, an_actor
from tests.explore.actors import Actor, Rewrite, as_written, connect
from tests.explore.orders import Scenario, Stage
from tests.explore.scenarios import SCENARIOS
from tests.explore.table_rows import drop_rows, save_rows


@contextlib.contextmanager
def a_stage(scenario: Scenario, owner: Any, *, rewrite: Rewrite = as_written) -> Iterator[Stage]:
    """Arrange a scenario, and give the stage on which its orders are played.

    Args: rewrite: is given the name of the decision and each of its statements, and returns what is sent instead.
    """
    facts = scenario.arrange(owner)
    save_rows()
    with contextlib.ExitStack() as stack:
        stack.callback(drop_rows)
        dsn = conninfo()
        watch = stack.enter_context(connect(dsn))
        actors = []
        for letter, (name, _, is_worker) in scenario.actors.items():
            actors.append(Actor(letter, name, connect(dsn), rewrite, is_worker=is_worker))
            stack.callback(actors[-1].close)
        yield Stage(scenario, facts, watch, actors)


def find(trace: str) -> tuple[Scenario, str]:
    """Return the scenario and the schedule that a trace names. Raises: SystemExit where there is no such scenario."""
    name, _, schedule = trace.partition(":")
    if name not in SCENARIOS:
        raise SystemExit(f"There is no scenario {name!r}. A trace is NAME:STEPS; known: {', '.join(SCENARIOS)}")
    return SCENARIOS[name], schedule


def an_owner() -> Any:
    """Return somebody who starts runs, outside of pytest."""
    return an_actor("owner", a_tenant("acme"), "runner")
