"""Scenarios of what begins without a call: a question and a timer beside a stop, a child where the tree is nearly full,
and the next turn of a conversation.

W holds the run and U a child of it; C stops it, P sends the next message.
"""

from typing import Any
from uuid import UUID

from runs.database import decide
from runs.decisions import children, conversations, creation, waiting
from runs.decisions.creation import NewRun
from runs.decisions.dispatch import Refused, StepCall
from runs.ids import new_id
from runs.models import Run
from runs.states import MOST_DESCENDANTS, OnBusy, Status
from tests.builders import a_claim, silent
from tests.explore import people, workers
from tests.explore.actors import Look, Script
from tests.explore.casting import scenario
from tests.explore.families import family
from tests.explore.invariants import Rows
from tests.explore.orders import World
from tests.explore.scenes import HOUR, held


def asker(world: World) -> Script:
    """The holder asks, then waits for the answer."""
    step = StepCall("q", "ask", "ask", {}, "d" * 64)
    asked = yield waiting.ask(
        run_id=world.run_id, fence=world.fence, step=step, question_id=new_id(), prompt="?", schema={},
        timeout_seconds=HOUR,
    )  # fmt: skip
    yield from _wait(world, asked, "input")


def sleeper(world: World) -> Script:
    """The holder sets a timer, then waits for it."""
    step = StepCall("t", "timer", "sleep", {}, "d" * 64)
    timer = yield waiting.set_timer(run_id=world.run_id, fence=world.fence, step=step, seconds=HOUR)
    yield from _wait(world, timer, "timer")


def _wait(world: World, begun: Any, what: str) -> Script:
    if isinstance(begun, Refused):
        yield from workers.refused(world, world.fence, begun.reason)
        return
    seen = yield Look("select wakes from runs_run where id = %(run)s", {"run": world.run_id})
    answer = yield waiting.wait(
        run_id=world.run_id, fence=world.fence, wakes=seen[0]["wakes"], waiting_for=what,
        wake_at=getattr(begun, "wake_at", None),
    )  # fmt: skip
    if isinstance(answer, waiting.NotWaiting) and answer.reason == "cancel":
        yield from workers.end_stop(world, world.fence)


def stop_is_first_once(world: World, rows: Rows) -> None:
    """The stop was recorded, and it was the first."""
    assert [a.is_first for a in world.answers] == [True], "nobody was first"


def nearly_full(owner: Any) -> dict[str, Any]:
    """A run and its child, both held; one more may begin in their tree."""
    scene = family(owner)
    Run.objects.filter(pk=scene["run"].pk).update(descendants=MOST_DESCENDANTS - 1)
    return scene


def _a_new(run: Run) -> NewRun:
    return NewRun(
        tenant_id=run.tenant_id, user_id=run.created_by_id, agent="probe", title="t", input={}, metadata={},
        deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
        idempotency_digest=None,
    )  # fmt: skip


def _spawn(world: World, run: Run, fence: int, root_id: UUID | None) -> Script:
    step = StepCall("s", "child", "probe", {}, "c" * 64)
    born = yield children.spawn(run_id=run.pk, fence=fence, root_id=root_id, step=step, child=_a_new(run))
    world.facts.setdefault("born", []).append(born)


def one_was_born(world: World, rows: Rows) -> None:
    """One of the two has begun its child, the other was told that the tree is full."""
    kinds = {type(born) for born in world.born}
    assert kinds == {children.Spawned, children.NotBorn}, "both began a child, or neither"
    assert rows["run"]["descendants"] == MOST_DESCENDANTS, "the tree was not counted"


def talking(owner: Any) -> dict[str, Any]:
    """The first run of a conversation, held."""
    new = _a_new(Run(tenant_id=owner.tenant.pk, created_by_id=owner.user.pk))
    row = decide(creation.create(new, conversation_id=new_id()), ring=silent)
    assert row is not None
    run = Run.objects.get(pk=row["id"])
    return {"run": run, "user_id": owner.user.pk, "fence": a_claim(run, lease_seconds=HOUR)}


def interrupter(world: World) -> Script:
    """A person sends the next message in place of the run."""
    new = _a_new(world.run)
    for _ in range(2):
        sent = yield conversations.send(conversation_id=world.run.conversation_id, new=new, on_busy=OnBusy.INTERRUPT)
        world.facts["sent"] = sent
        if not isinstance(sent, conversations.NotSent):
            return


def one_follows(world: World, rows: Rows) -> None:
    """The message is a run, for the one before it has ended."""
    assert rows["run"]["terminal_at"] is not None, "nobody has ended it"
    assert isinstance(world.sent, conversations.Started | conversations.Waits), "the message was not taken"
    found = Run.objects.filter(conversation_id=world.run.conversation_id).order_by("turn")
    assert [run.status for run in found][1:] == [Status.QUEUED], "nothing follows, or more than one"


BEGINNINGS = [
    scenario("ask-vs-stop", held, stop_is_first_once, W=asker, C=people.canceller),
    scenario("sleep-vs-stop", held, stop_is_first_once, W=sleeper, C=people.canceller),
    scenario("tree-spawn-where-one-fits", nearly_full, one_was_born,
             W=lambda w: _spawn(w, w.run, w.fence, None),
             U=lambda w: _spawn(w, w.child, w.child_fence, w.run_id)),
    scenario("interrupt-vs-finish", talking, one_follows, W=lambda w: workers.finish(w, w.fence), P=interrupter),
]  # fmt: skip
