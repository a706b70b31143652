"""The scenes on which actors meet: one run, made by real decisions, in the state where a race begins.

Each returns {"run": Run, ...}: what the actors of the scenario need to know. Times are an hour away, or an hour ago.
"""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, controls, dispatch, endings, operations, waiting
from runs.ids import new_id
from runs.models import ControlConnection, Operation, Question, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent

HOUR = 3600.0
PAST = timedelta(hours=1)


def queued(owner: Any, **changes: Any) -> dict[str, Any]:
    """A run that nobody has claimed."""
    return {"run": a_run(owner, **({"deadline_seconds": 2 * HOUR} | changes)), "user_id": owner.user.pk}


def held(owner: Any, *, kind: str | None = None, is_stopping: bool = False, **changes: Any) -> dict[str, Any]:
    """A run with a holder, worker-a, and perhaps a call in flight."""
    scene = queued(owner, **changes)
    run = scene["run"]
    scene["fence"] = a_claim(run, lease_seconds=HOUR)
    if kind is not None:
        is_model = kind == "model"
        scene["sent"] = a_dispatch(
            run, scene["fence"], kind="model" if is_model else "tool", effect=None if is_model else kind
        )
    if is_stopping:
        decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    return scene


def abandoned(owner: Any, *, kind: str = "write", is_stopping: bool = False) -> dict[str, Any]:
    """A run whose holder may be frozen: its lease has passed, and a call of it is in flight."""
    scene = held(owner, kind=kind, is_stopping=is_stopping)
    Run.objects.filter(pk=scene["run"].pk).update(lease_until=timezone.now() - PAST)
    return scene


def in_doubt(owner: Any, *, ended: bool = True, is_stopping: bool = False) -> dict[str, Any]:
    """A run with an unknown operation: parked by its holder, or still held."""
    scene = held(owner, kind="write")
    run = scene["run"]
    an_outcome(run, scene["fence"], scene["sent"], "unknown", gave_up=False)
    if is_stopping:
        decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
        decide(endings.end_cancel(run_id=run.pk, fence=scene["fence"]), ring=silent)
    elif ended:
        decide(endings.park(run_id=run.pk, fence=scene["fence"]), ring=silent)
    Operation.objects.filter(run=run).update(next_look_up_at=timezone.now() - PAST)
    return scene


def refuted(owner: Any) -> dict[str, Any]:
    """A run that failed, whose write an operator called "did not happen": they were wrong, or it is still to land."""
    scene = in_doubt(owner)
    operation = Operation.objects.get(run=scene["run"])
    verdict = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=False, source="verdict", detail={},
        override=True,
    )  # fmt: skip
    decide(verdict, ring=silent)
    return scene


def settled_under_a_holder(owner: Any) -> dict[str, Any]:
    """A run that was stopped past its stop deadline, and verified: its holder still has its permit."""
    scene = held(owner, kind="write", is_stopping=True)
    run = scene["run"]
    Run.objects.filter(pk=run.pk).update(stop_deadline_at=timezone.now() - PAST)
    decide(endings.end_cancel(run_id=run.pk), ring=silent)
    operation = Operation.objects.get(run=run)
    settle = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=False, source="verdict", detail={}, override=True
    )
    decide(settle, ring=silent)
    return scene | {"is_void": True}  # the horizon has passed, so the permit has as well


def two_in_doubt(owner: Any) -> dict[str, Any]:
    """A run that was parked with two unknown operations."""
    scene = held(owner, kind="write")
    run, fence = scene["run"], scene["fence"]
    second = a_dispatch(run, fence, path="2")
    for sent in (scene["sent"], second):
        an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    return scene


def in_doubt_beside_a_call(owner: Any) -> dict[str, Any]:
    """A held run with an unknown operation, and another one in flight."""
    scene = held(owner, kind="write")
    a_dispatch(scene["run"], scene["fence"], path="2")
    an_outcome(scene["run"], scene["fence"], scene["sent"], "unknown")
    return scene


def committed(owner: Any) -> dict[str, Any]:
    """A run that failed after its write had been committed."""
    scene = held(owner, kind="write")
    an_outcome(scene["run"], scene["fence"], scene["sent"], "succeeded")
    failed = endings.finish_run(run_id=scene["run"].pk, fence=scene["fence"], status=Status.FAILED, error_code="x")
    decide(failed, ring=silent)
    return scene | {"has_landed": ["1"]}


def asking(
    owner: Any, *, is_waiting: bool = False, is_late: bool = False, kind: str | None = None, is_unknown: bool = False
) -> dict[str, Any]:
    """A run with an open question, held or waiting for it; perhaps beside a call in flight or an unknown one."""
    scene = held(owner)
    if kind is not None:
        sent = a_dispatch(scene["run"], scene["fence"], path="9", effect=kind)
    run, fence = scene["run"], scene["fence"]
    call = dispatch.StepCall("1", "ask", "ask", {}, "d" * 64)
    asked = decide(
        waiting.ask(run_id=run.pk, fence=fence, step=call, question_id=new_id(), prompt="?", schema={},
                    timeout_seconds=HOUR),
        ring=silent,
    )  # fmt: skip
    assert isinstance(asked, waiting.Asked)
    if is_unknown:
        an_outcome(run, fence, sent, "unknown")
    if is_waiting:
        decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="input"), ring=silent)
    if is_late:
        Question.objects.filter(pk=asked.question_id).update(expires_at=timezone.now() - PAST)
    return scene | {"question_id": asked.question_id, "step_id": asked.step_id}


def sleeping(owner: Any) -> dict[str, Any]:
    """A run that waits for its timer, whose time has come."""
    scene = held(owner)
    run, fence = scene["run"], scene["fence"]
    call = dispatch.StepCall("1", "timer", "sleep", {}, "d" * 64)
    timer = decide(waiting.set_timer(run_id=run.pk, fence=fence, step=call, seconds=HOUR), ring=silent)
    assert isinstance(timer, waiting.TimerSet)
    past = timezone.now() - PAST
    decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="timer", wake_at=past), ring=silent)
    Step.objects.filter(pk=timer.step_id).update(result={"wake_at": past.isoformat()})
    return scene


def watched(owner: Any, *, connections: int = 1, lapsed: bool = False, is_overdue: bool = False) -> dict[str, Any]:
    """A held run with a grace and so many control connections."""
    scene = held(owner, on_disconnect="grace", grace_seconds=HOUR)
    run = scene["run"]
    made = [decide(controls.attach(run_id=run.pk, user_id=owner.user.pk), ring=silent) for _ in range(connections)]
    scene["connections"] = [c.connection_id for c in made if c is not None]
    if lapsed:
        ControlConnection.objects.filter(run=run).update(presence_until=timezone.now() - PAST)
        for connection_id in scene["connections"]:
            decide(controls.lapse(connection_id=connection_id), ring=silent)
    if is_overdue:
        Run.objects.filter(pk=run.pk).update(grace_expires_at=timezone.now() - PAST)
    return scene
