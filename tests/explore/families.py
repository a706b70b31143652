"""Scenarios of a parent and its child run (RULES H14): P has them all in one tree, as people see it.

W holds the parent and U the child; C stops the parent, S brings the outbox, V claims the parent again.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from runs.decisions import children, endings, waiting
from runs.decisions.creation import NewRun
from runs.decisions.dispatch import Refused, StepCall
from runs.states import Status
from tests.builders import a_child, a_claim
from tests.explore import people, workers
from tests.explore.actors import Look, Script
from tests.explore.casting import scenario
from tests.explore.invariants import Rows
from tests.explore.orders import World
from tests.explore.scenes import HOUR, held


def family(owner: Any, *, has_worker: bool = True) -> dict[str, Any]:
    """A held run with a child, that has a worker of its own or is queued."""
    scene = held(owner)
    child = a_child(scene["run"], scene["fence"], path="c")
    fence = a_claim(child, "worker-c", lease_seconds=HOUR) if has_worker else 0
    return scene | {"child": child, "child_fence": fence}


def as_child(world: World) -> World:
    """The same world, as the child's worker sees it."""
    facts = world.facts | {"run": world.child, "fence": world.child_fence}
    return replace(world, run_id=world.child.pk, facts=facts)


def child_holder(*calls: str) -> Any:
    """The child's worker makes its calls and finishes the child."""
    return lambda world: workers.holder(as_child(world), world.child_fence, *calls, worker="worker-c")


def child_fails(world: World) -> Script:
    """The child's worker ends the child as failed; where a stop was first, it ends that."""
    inner = as_child(world)
    ended = yield endings.finish_run(
        run_id=inner.run_id, fence=inner.fence, status=Status.FAILED, error_code="x", error_message="x"
    )
    if isinstance(ended, endings.NotEnded) and ended.reason == "cancel":
        yield from workers.end_stop(inner, inner.fence)


def spawner(world: World) -> Script:
    """The parent begins a child, then waits for it."""
    run = world.run
    child = NewRun(
        tenant_id=run.tenant_id, user_id=run.created_by_id, agent="probe", title="t", input={}, metadata={},
        deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
        idempotency_digest=None,
    )  # fmt: skip
    step = StepCall("s", "child", "probe", {}, "c" * 64)
    born = yield children.spawn(run_id=world.run_id, fence=world.fence, root_id=None, step=step, child=child)
    if isinstance(born, Refused):
        yield from workers.refused(world, world.fence, born.reason)
        return
    yield from waiter(world)


def waiter(world: World) -> Script:
    """The parent looks for its child's end, and waits or finishes."""
    yield from wait_for_child(world, world.fence)


def wait_for_child(world: World, fence: int) -> Script:
    """Look, then wait; what came meanwhile is seen by looking again."""
    for _ in range(3):
        seen = yield Look("select wakes, open_children from runs_run where id = %(run)s", {"run": world.run_id})
        if seen[0]["open_children"] == 0:
            yield from workers.finish(world, fence)
            return
        answer = yield waiting.wait(run_id=world.run_id, fence=fence, wakes=seen[0]["wakes"], waiting_for="child")
        if isinstance(answer, waiting.Waiting):
            return
        if answer.reason == "cancel":
            yield from workers.end_stop(world, fence)
        if answer.reason != "woken":
            return


def next_holder(world: World) -> Script:
    """Another worker takes the parent over, once it was woken or freed."""
    yield from workers.claimant(world)


def finisher(world: World) -> Script:
    """The parent's agent returns without looking at its child."""
    yield from workers.finish(world, world.fence)


def stopper(world: World) -> Script:
    """The parent's holder sees the stop and ends it, if it may."""
    yield from workers.end_stop(world, world.fence)


def outbox(rounds: int = 2) -> Any:
    """A supervisor brings each word of a child's end to its parent."""

    def script(world: World) -> Script:
        for _ in range(rounds):
            yield from people.supervisor(world, "child_end")

    return script


def nobody_is_forgotten(world: World, rows: Rows) -> None:
    """A stop was recorded once on the parent; a child that has ended is told, or its word is still in the outbox."""
    firsts = [a for a in world.facts.get("answers", []) if a is not None and a.is_first]
    assert len(firsts) == int(rows["run"]["cancel_id"] is not None), "two were first, or nobody was"


def force_is_ended(world: World, rows: Rows) -> None:
    """Who forces the parent to stop ends it with its child, whatever that was doing."""
    assert rows["run"]["terminal_at"] is not None, "nobody has ended it"


FAMILIES = [
    scenario("tree-stop-vs-childs-call", family, nobody_is_forgotten, U=child_holder("write"), C=people.canceller,
             S=outbox()),
    scenario("tree-stop-vs-childs-claim", partial(family, has_worker=False), nobody_is_forgotten, C=people.canceller,
             V=lambda w: workers.claimant(as_child(w), "read"), S=outbox()),
    scenario("tree-spawn-vs-stop", held, nobody_is_forgotten, W=spawner, C=people.canceller),
    scenario("tree-childs-end-vs-wait", family, None, W=waiter, U=child_holder(), S=outbox(), V=next_holder),
    scenario("tree-stop-vs-childs-end", family, nobody_is_forgotten, W=waiter, U=child_fails, C=people.canceller,
             S=outbox()),
    scenario("tree-force-vs-childs-call", family, force_is_ended, W=waiter, U=child_holder("write"), O=people.forcer,
             S=outbox()),
    scenario("tree-finish-beside-child", family, None, W=finisher, U=child_holder(), S=outbox()),
    scenario("tree-stop-vs-holder", family, nobody_is_forgotten, C=people.canceller, W=stopper, U=child_fails,
             S=outbox()),
    scenario("tree-two-stops", family, nobody_is_forgotten, C=people.canceller, Z=people.canceller, U=child_holder(),
             S=outbox()),
]  # fmt: skip
