"""One run, two workers, people and a supervisor who do anything at any time: a step of a random walk."""

from datetime import timedelta
from random import Random
from typing import Any

from django.utils import timezone

from runs.database import decide
from runs.decisions import (
    append,
    cancels,
    claims,
    controls,
    dispatch,
    endings,
    operations,
    retry,
    reuse,
    steps,
    timers,
    waiting,
)
from runs.errors import RuleBroken
from runs.frames import Draft, Origin
from runs.ids import new_id
from runs.models import ControlConnection, Operation, Question, Run, Step
from runs.states import CancelReason, Reuse, Status
from tests.builders import silent
from tests.races.walker_children import ChildMoves

WORKERS = ["worker-a", "worker-b"]
OUTCOMES = ["succeeded", "failed", "unknown", "refuted"]


class Walker(ChildMoves):
    """Chooses what happens next; every choice may be absurd, and then it must change nothing.

    `run` is the row as it was before the step; the caller reads it again after each.
    """

    def __init__(self, run: Run, user_id: int, random: Random) -> None:
        self.run, self.user_id, self.random = run, user_id, random
        self.history: list[str] = []
        self.actions = [name for name in dir(self) if name.startswith("do_")]

    def step(self) -> None:
        """Do one thing. Races are lost by a value; breaking a rule raises, and leaves no trace."""
        name = self.random.choice(self.actions)
        try:
            result = getattr(self, name)()
        except RuleBroken as error:
            result = error
        self.history.append(f"{name[3:]} -> {result!r:.120}")

    def _decide(self, decision: Any) -> Any:
        return decide(decision, ring=silent)

    def _ids(self) -> dict[str, Any]:
        fence = self.run.fence if self.random.random() < 0.8 else self.random.randint(0, self.run.fence)
        return {"run_id": self.run.pk, "fence": fence}

    def _call(self, kind: str, effect: str | None = None) -> dispatch.StepCall:
        path = f"{kind[0]}{effect or ''}{self.random.randint(1, 2)}"
        return dispatch.StepCall(path, kind, kind, {}, "d" * 64, effect)

    def _one(self, rows: Any) -> Any:
        found = list(rows.order_by("pk"))
        return self.random.choice(found) if found else None

    def _past(self, rows: Any, **fields: Any) -> int:
        changed: int = rows.update(**dict.fromkeys(fields, timezone.now() - timedelta(seconds=1)))
        return changed

    def _row(self) -> Any:
        return Run.objects.filter(pk=self.run.pk)

    # -- time passes -----------------------------------------------------------------------------------------------
    def do_let_lease_pass(self) -> Any:
        return self._past(self._row().filter(lease_until__isnull=False), lease_until=1)

    def do_let_stop_deadline_pass(self) -> Any:
        return self._past(self._row().filter(stop_deadline_at__isnull=False), stop_deadline_at=1)

    def do_let_grace_pass(self) -> Any:
        return self._past(self._row().filter(grace_expires_at__isnull=False), grace_expires_at=1)

    def do_let_waits_pass(self) -> Any:
        for step in Step.objects.filter(run=self.run, kind="timer", state="open"):
            wake_at = (timezone.now() - timedelta(seconds=1)).isoformat()
            Step.objects.filter(pk=step.pk).update(result={"wake_at": wake_at})
        self._past(Question.objects.filter(run=self.run, state="open"), expires_at=1)
        return self._past(self._row().filter(wake_at__isnull=False), wake_at=1)

    def do_let_horizon_pass(self) -> Any:
        self._past(ControlConnection.objects.filter(run=self.run), presence_until=1)
        return self._past(Operation.objects.filter(run=self.run), horizon_at=1)

    # -- claims ----------------------------------------------------------------------------------------------------
    def do_claim(self) -> Any:
        claimed = self._decide(claims.claim(run_id=self.run.pk, worker=self.random.choice(WORKERS), lease_seconds=60.0))
        return claimed.fence if isinstance(claimed, claims.Claimed) else claimed

    do_claim_again = do_claim

    def do_renew(self) -> Any:
        fence = self._ids()["fence"]
        worker = self.random.choice(WORKERS)
        return self._decide(claims.renew(worker=worker, held={self.run.pk: fence}, lease_seconds=60.0))

    def do_append(self) -> Any:
        number = self.run.last_batch + self.random.choice([0, 1, 1, 2])
        drafts = [Draft("tool.progress", '{"type":"tool.progress","data":{}}')] * self.random.randint(1, 3)
        batch = append.Batch(self.run.pk, self._ids()["fence"], number, drafts)
        return self._decide(append.append_many([batch]))

    def do_see_cancel(self) -> Any:
        return self._decide(claims.see_cancel(**self._ids()))

    def do_release(self) -> Any:
        return self._decide(claims.release(**self._ids(), even_in_flight=self.random.random() < 0.5))

    def do_lose_worker(self) -> Any:
        worker = self.random.choice(WORKERS)
        self._decide(claims.mark_holder_gone(worker=worker, proof={"exit": -9}))
        return self._decide(claims.take_from_dead(run_id=self.run.pk, worker=worker))

    def do_sweep_lease(self) -> Any:
        return self._decide(claims.expire_lease(run_id=self.run.pk))

    # -- steps -----------------------------------------------------------------------------------------------------
    def do_dispatch(self) -> Any:
        kind, effect = self.random.choice(
            [("model", None), ("tool", "read"), ("tool", "idempotent"), ("tool", "write"), ("tool", "write")]
        )
        step, operation = self._call(kind, effect), None
        if effect not in (None, "read"):
            key = f"{self.run.pk.hex}:{step.path}"
            operation = dispatch.OperationCall(key, self.random.random() < 0.2, True, 0.0)
        return self._decide(
            dispatch.dispatch(
                **self._ids(), worker=self.random.choice(WORKERS), step=step, nonce=new_id(), operation=operation,
                message_id=new_id() if kind == "model" else None,
                origin=self.random.choice([None, Origin(self.run.pk, self.run.attempt, self.run.stream_id)]),
            )
        )  # fmt: skip

    do_dispatch_again = do_dispatch_more = do_dispatch

    def do_finish_step(self) -> Any:
        step = self._one(Step.objects.filter(run=self.run, kind__in=("model", "tool")))
        if step is None:
            return None
        outcome = None
        if Operation.objects.filter(step=step).exists():
            gave_up = self.random.random() < 0.5
            outcome = steps.OperationOutcome(self.random.choice(OUTCOMES), {"retryable": gave_up}, gave_up=gave_up)
        state = self.random.choice(["finished", "failed", "abandoned"])
        return self._decide(steps.finish_step(**self._ids(), step_id=step.pk, state=state, outcome=outcome))

    do_finish_step_again = do_finish_step

    def do_mark_unknown(self) -> Any:
        operation = self._one(Operation.objects.filter(run=self.run))
        if operation is None:
            return None
        return self._decide(operations.mark_unknown(**self._ids(), operation_id=operation.pk, message="m"))

    def do_say(self) -> Any:
        return self._decide(steps.instant_step(**self._ids(), step=self._call("text"), result="r", facts=[]))

    # -- waiting ---------------------------------------------------------------------------------------------------
    def do_ask(self) -> Any:
        ask = waiting.ask(
            **self._ids(), step=self._call("ask"), question_id=new_id(), prompt="?", schema={}, timeout_seconds=60.0
        )
        return self._decide(ask)

    def do_set_timer(self) -> Any:
        return self._decide(waiting.set_timer(**self._ids(), step=self._call("timer"), seconds=60.0))

    def do_finish_timer(self) -> Any:
        step = self._one(Step.objects.filter(run=self.run, kind="timer"))
        return step and self._decide(timers.finish_timer(**self._ids(), step_id=step.pk))

    def do_wait(self) -> Any:
        """As the worker does: only for something that is open, with the count that it read before."""
        timer = self._one(Step.objects.filter(run=self.run, kind="timer", state="open"))
        child = self._child(told_parent__isnull=True)
        if timer is None and child is None and not Question.objects.filter(run=self.run, state="open").exists():
            return None
        wakes = self.run.wakes - (self.random.random() < 0.2)
        what, wake_at = ("input", None) if timer is None else ("timer", timezone.now() + timedelta(seconds=60))
        return self._decide(waiting.wait(**self._ids(), wakes=wakes, waiting_for=what, wake_at=wake_at))

    def do_answer(self) -> Any:
        return self._question(
            lambda q: waiting.answer(run_id=self.run.pk, question_id=q, value=1, by=self.user_id, by_name="x")
        )

    def do_expire_question(self) -> Any:
        return self._question(lambda q: waiting.expire_question(run_id=self.run.pk, question_id=q))

    def _question(self, make: Any) -> Any:
        question = self._one(Question.objects.filter(run=self.run))
        return question and self._decide(make(question.pk))

    def do_fire_timer(self) -> Any:
        return self._decide(waiting.fire_timer(run_id=self.run.pk))

    # -- ends and what comes after ---------------------------------------------------------------------------------
    def do_cancel(self) -> Any:
        if self.random.random() < 0.6:
            return None  # else most walks would be stopped before anything has happened
        reason, overdue = self.random.choice(
            [(CancelReason.USER, False), (CancelReason.DEADLINE, True), (CancelReason.CLIENT_GONE, True)]
        )
        return self._decide(cancels.request_cancel(run_id=self.run.pk, reason=reason, overdue_only=overdue))

    def do_finish_run(self) -> Any:
        status = self.random.choice([Status.COMPLETED, Status.FAILED])
        return self._decide(endings.finish_run(**self._ids(), status=status)) if self.random.random() < 0.5 else None

    def do_park(self) -> Any:
        return self._decide(endings.park(**self._ids(), has_result=self.random.random() < 0.5))

    def do_end_cancel(self) -> Any:
        ids = self._ids() if self.random.random() < 0.5 else {"run_id": self.run.pk}
        return self._decide(endings.end_cancel(**ids))

    def do_settle(self) -> Any:
        return self.settle(override=self.random.random() < 0.3, happened=self.random.random() < 0.5)

    def settle(self, *, override: bool, happened: bool, operation: Operation | None = None) -> Any:
        """Decide an operation by an operator's word."""
        operation = operation or self._one(Operation.objects.filter(run=self.run))
        if operation is None:
            return None
        version = operation.version - (not override and self.random.random() < 0.1)
        return self._decide(
            operations.settle(
                operation_id=operation.pk, version=version, happened=happened, source="verdict", detail={},
                override=override,
            )
        )  # fmt: skip

    def do_retry(self) -> Any:
        """Mostly refused: a run must be settled, and what is to be done again must have taken effect."""
        operation = self._one(Operation.objects.filter(run=self.run)) if self.random.random() < 0.5 else None
        return self._decide(
            retry.retry(
                retry.Wish(
                    run_id=self.run.pk, user_id=self.user_id, user_name="x", reuse=self.random.choice(list(Reuse)),
                    redo=[operation.pk] if operation else [], version=self.run.version - (self.random.random() < 0.1),
                )
            )
        )  # fmt: skip

    do_retry_again = do_retry

    def do_take_over(self) -> Any:
        """Any finished step, also one that may not be taken over."""
        old = self._one(Step.objects.filter(run=self.run, state="finished"))
        if old is None:
            return None
        step = dispatch.StepCall(old.path, old.kind, old.name, {}, old.digest, old.effect)
        return self._decide(reuse.take_over_step(**self._ids(), step=step, old_step_id=old.pk, facts=[]))

    def do_leave_evidence(self) -> Any:
        operation = self._one(Operation.objects.filter(run=self.run))
        happened = self.random.choice([True, False, None])
        return operation and self._decide(
            operations.record_evidence(
                operation_id=operation.pk, fence=self.random.randint(1, operation.fence), kind="receipt",
                happened=happened, detail={"proof": "test"},
            )
        )  # fmt: skip

    # -- control connections ---------------------------------------------------------------------------------------
    def do_attach(self) -> Any:
        return self._decide(controls.attach(run_id=self.run.pk, user_id=self.user_id))

    def do_change_presence(self) -> Any:
        connection = self._one(ControlConnection.objects.filter(run=self.run))
        act = self.random.choice([controls.detach, controls.lapse, controls.renew_presence])
        return connection and (act.__name__, self._decide(act(connection_id=connection.pk)))

    # -- the rest of the way, by a supervisor and an operator alone ------------------------------------------------
    def bring_to_an_end(self) -> None:
        """Stop the run, let every time pass, and settle what is unknown: no worker is needed for that."""
        self._decide(cancels.request_cancel(run_id=self.run.pk, reason=CancelReason.OPERATOR))
        self.do_let_stop_deadline_pass()
        self.end_children()
        self._decide(endings.end_cancel(run_id=self.run.pk))
        for operation in Operation.objects.filter(run=self.run, state="unknown"):
            settled = self.settle(override=True, happened=False, operation=operation)
            if isinstance(settled, operations.NotSettled) and settled.reason == "receipt":
                settled = self.settle(override=True, happened=True, operation=operation)  # a receipt says that it did
            assert isinstance(settled, operations.Settled), settled
