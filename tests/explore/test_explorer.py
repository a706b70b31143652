"""The orders of every scenario, those with few switches first, on the real decisions and real PostgreSQL.

`make explore` walks deeper; `make explore TRACE=...` replays one order and tells it.
"""

import contextlib
from random import Random
from typing import Any

import pytest

from runs.decisions.core import Decision, lock_run
from runs.errors import RuleBroken
from tests.builders import a_run
from tests.explore.actors import Script
from tests.explore.kept import keep, kept_traces
from tests.explore.orders import Failed, Scenario, World, walk
from tests.explore.scenarios import SCENARIOS, canceller, finisher
from tests.explore.scenes import held
from tests.explore.stages import a_stage, find

pytestmark = pytest.mark.django_db(transaction=True)
ORDERS = 34  # of each scenario
WALKED_IN_ALL = 2_000
walked_by: dict[str, int] = {}  # in this process, which has all tests of this file


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_order_breaks_an_invariant(owner, name):
    with a_stage(SCENARIOS[name], owner) as stage:
        try:
            walked = walk(stage, limit=ORDERS)
        except Failed as failed:
            keep(failed)
            raise
    assert walked.orders == ORDERS or walked.is_complete
    walked_by[name] = walked.orders


def test_more_than_two_thousand_orders_were_walked(request):
    chosen = {item.callspec.params["name"] for item in request.session.items
              if getattr(item, "originalname", "") == test_no_order_breaks_an_invariant.__name__}  # fmt: skip
    if chosen != set(SCENARIOS):
        pytest.skip("not all scenarios were asked for")
    assert set(walked_by) == chosen
    assert sum(walked_by.values()) >= WALKED_IN_ALL, walked_by


@pytest.mark.parametrize("trace", kept_traces())
def test_an_order_that_broke_once_holds(owner, trace):
    scenario, schedule = find(trace)
    with a_stage(scenario, owner) as stage:
        stage.play(schedule)


def two_actors() -> Scenario:
    return Scenario("two", held, {"W": ("holder", finisher, True), "C": ("canceller", canceller, False)})


def test_an_order_is_walked_once_and_none_is_left_out(owner):
    scenario = Scenario("two", held, {letter: ("canceller", canceller, False) for letter in "CZ"})
    random = Random(1)
    with a_stage(scenario, owner) as stage:
        stage.is_fine = True
        walked = walk(stage, limit=1000)
        assert walked.is_complete
        assert len(set(walked.schedules)) == len(walked.schedules) >= 10
        for _ in range(50):
            assert stage.play("".join(random.choices("CZ", k=12))).schedule in walked.schedules


def test_a_trace_replays_its_order(owner):
    with a_stage(two_actors(), owner) as stage:
        order = stage.play("WWCC")
        assert order.schedule.startswith("WWCC")
        again = stage.play(order.schedule)
    assert again.schedule == order.schedule
    assert [what for _, what, _ in again.did] == [what for _, what, _ in order.did]
    assert any("request_cancel" in line for line in again.tell())


def test_every_order_begins_from_the_same_rows(owner):
    with a_stage(two_actors(), owner) as stage:
        first = stage._read(World(stage.facts["run"].pk, {}))
        stage.play("")
        stage.play("C")
        assert stage._read(World(stage.facts["run"].pk, {})) != first
        stage.watch.execute("select explore_reset()")
        assert stage._read(World(stage.facts["run"].pk, {})) == first


def test_an_actor_behind_a_lock_is_blocked_and_goes_on_after_the_commit(owner):
    with a_stage(two_actors(), owner) as stage:
        order = stage.play("CCWWWW")
        waits = [actor.letter for actor, what, _ in order.did if what == "waits for a row"]
        assert waits == ["W"]
        assert order.schedule.index("C" * 3) >= 0  # nobody else could go on until the canceller had committed


def locking(*runs: str, breaks: bool = False) -> Any:
    """A script of one decision that locks these runs, and may break a rule then."""

    def decision(world: World) -> Decision[None]:
        for name in runs:
            yield from lock_run(getattr(world, name).pk)
        if breaks:
            raise RuleBroken("on purpose")

    def script(world: World) -> Script:
        with contextlib.suppress(RuleBroken):
            yield decision(world)

    return script


def two_runs(owner: Any) -> dict[str, Any]:
    return {"run": a_run(owner), "other": a_run(owner)}


def test_who_waited_for_what_was_rolled_back_goes_on(owner):
    """Nobody has committed, and nobody is left who could."""
    actors = {"A": ("breaker", locking("run", "other", breaks=True), False), "B": ("other", locking("run"), False)}
    with a_stage(Scenario("rollback", two_runs, actors), owner) as stage:
        stage.is_fine = True
        assert stage.play("ABA").schedule == "ABAB"


def test_who_wait_for_each_other_are_named_by_postgresql(owner):
    actors = {"A": ("one", locking("run", "other"), False), "B": ("another", locking("other", "run"), False)}
    with a_stage(Scenario("crosswise", two_runs, actors), owner) as stage:
        stage.is_fine = True
        with pytest.raises(Failed, match="DeadlockDetected"):
            stage.play("ABAB")


def test_a_broken_order_is_told_with_its_trace(owner):
    def never(world: World, rows: object) -> None:
        raise AssertionError("this is always wrong")

    scenario = Scenario("two", held, two_actors().actors, never)
    with a_stage(scenario, owner) as stage, pytest.raises(Failed, match="this is always wrong") as caught:
        walk(stage, limit=5)
    assert caught.value.trace.startswith("two:W")
    assert "finish_run" in str(caught.value)


def test_an_unknown_scenario_is_named(db):
    with pytest.raises(SystemExit, match="no scenario 'nonsense'"):
        find("nonsense:WC")
