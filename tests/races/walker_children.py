"""The steps of a random walk that have to do with child runs: begun, ended in every way, told in any order."""

from datetime import timedelta
from random import Random
from typing import Any

from django.utils import timezone

from runs.database import decide
from runs.decisions import cancels, children, claims, creation, dispatch, endings, operations, steps
from runs.ids import new_id
from runs.models import Operation, Run
from runs.states import CancelReason, Status
from tests.builders import silent
from tests.races.invariants import check


class ChildMoves:
    """Part of the Walker: `run`, `user_id`, `random` and `_ids` are its own."""

    run: Run
    user_id: int
    random: Random

    def _ids(self) -> dict[str, Any]:
        raise NotImplementedError

    def do_spawn(self) -> Any:
        child = creation.NewRun(
            tenant_id=self.run.tenant_id, user_id=self.user_id, agent="probe", title="t", input={}, metadata={},
            deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
            idempotency_digest=None,
        )  # fmt: skip
        step = dispatch.StepCall(f"c{self.random.randint(1, 3)}", "child", "probe", {}, "d" * 64)
        return decide(children.spawn(**self._ids(), root_id=None, step=step, child=child), ring=silent)

    def do_end_child(self) -> Any:
        """Let a child end somehow, or go on; whether its parent hears of it is another step."""
        child = self._child(terminal_at__isnull=True)
        if child is None:
            return None
        how = self.random.choice(["finish", "doubt", "stop", "claim", "end"])
        if how == "stop":
            return how, decide(cancels.request_cancel(run_id=child.pk, reason=CancelReason.USER), ring=silent)
        if how == "end":
            return how, end_stopped(child)
        claimed = decide(claims.claim(run_id=child.pk, worker="worker-c", lease_seconds=60.0), ring=silent)
        if isinstance(claimed, claims.Claimed) and claimed.run["status"] == Status.RUNNING and how != "claim":
            return how, finish(child, claimed.fence) if how == "finish" else leave_in_doubt(child, claimed.fence)
        return how, claimed

    def do_tell_parent(self) -> Any:
        child = self._child()
        return child and decide(children.count_end(run_id=child.pk), ring=silent)

    do_tell_parent_again = do_tell_parent

    def do_settle_child(self) -> Any:
        child = self._child(status=Status.NEEDS_RECONCILIATION)
        return child and settle(child)

    def end_children(self) -> None:
        """End what a stop has reached, and let the parent know of all of it."""
        for child in Run.objects.filter(parent=self.run).order_by("pk"):
            end_stopped(child)
            settle(child)
            decide(children.count_end(run_id=child.pk), ring=silent)
            check(child.pk)

    def _child(self, **which: Any) -> Run | None:
        found = list(Run.objects.filter(parent=self.run, **which).order_by("pk"))
        return self.random.choice(found) if found else None


def finish(child: Run, fence: int) -> Any:
    return decide(endings.finish_run(run_id=child.pk, fence=fence, status=Status.COMPLETED, result=1), ring=silent)


def leave_in_doubt(child: Run, fence: int) -> Any:
    step = dispatch.StepCall("1", "tool", "t", {}, "d" * 64, "write")
    call = dispatch.OperationCall(f"{child.pk.hex}:{child.attempt}", False, True, 0.0)
    sent = decide(
        dispatch.dispatch(run_id=child.pk, fence=fence, worker="worker-c", step=step, nonce=new_id(), operation=call),
        ring=silent,
    )
    if not isinstance(sent, dispatch.Dispatched):
        return sent
    outcome = steps.OperationOutcome("unknown", {})
    decide(
        steps.finish_step(run_id=child.pk, fence=fence, step_id=sent.step_id, state="open", outcome=outcome),
        ring=silent,
    )
    return decide(endings.park(run_id=child.pk, fence=fence), ring=silent)


def end_stopped(child: Run) -> Any:
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=child.pk, stop_deadline_at__isnull=False).update(stop_deadline_at=past)
    return decide(endings.end_cancel(run_id=child.pk), ring=silent)


def settle(child: Run) -> Any:
    for operation in Operation.objects.filter(run=child, state="unknown"):
        decide(
            operations.settle(
                operation_id=operation.pk, version=operation.version, happened=True, source="verdict", detail={}
            ),
            ring=silent,
        )
    return None
