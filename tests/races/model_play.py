"""The moves of the model (actors, time, target) as real decisions on one run, so that its traces can be replayed."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from runs.database import decide
from runs.decisions import append, cancels, claims, dispatch, endings, operations, retry, steps, waiting
from runs.frames import Draft
from runs.ids import new_id
from runs.models import Operation, Question, Run
from runs.states import CancelReason, Status
from tests.builders import a_run, silent
from tests.explore.target import Target
from tests.races.invariants import check


class Play:
    """One run and what the world knows of it. A move returns what its decision said; all invariants hold after it."""

    def __init__(self, owner: Any) -> None:
        self.run, self.user_id = a_run(owner), owner.user.pk
        self.target = Target()

    def do(self, decision: Any) -> Any:
        """Let a decision happen."""
        value = decide(decision, ring=silent)
        self.run = check(self.run.pk)
        return value

    def key(self, path: str) -> str:
        return f"{self.run.pk.hex}:{path}"

    def operation(self, path: str = "1") -> Operation:
        return Operation.objects.get(key=self.key(path))

    def _past(self, rows: Any, *names: str) -> None:
        rows.update(**dict.fromkeys(names, timezone.now() - timedelta(seconds=1)))

    # -- time ----------------------------------------------------------------------------------------------------------
    def lease_expires(self) -> None:
        self._past(Run.objects.filter(pk=self.run.pk), "lease_until")

    def stop_deadline_passes(self) -> None:
        self._past(Run.objects.filter(pk=self.run.pk), "stop_deadline_at")

    def horizon_passes(self, path: str = "1") -> None:
        self._past(Operation.objects.filter(key=self.key(path)), "send_by", "horizon_at")

    def holder_is_gone(self, path: str = "1") -> None:
        self._past(Operation.objects.filter(key=self.key(path)), "holder_gone_at")

    # -- workers -------------------------------------------------------------------------------------------------------
    def claims(self, worker: str) -> int:
        claimed = self.do(claims.claim(run_id=self.run.pk, worker=worker, lease_seconds=60.0))
        assert isinstance(claimed, claims.Claimed), claimed
        return claimed.fence

    def appends(self, fence: int, number: int = 1) -> bool:
        drafts = [Draft("tool.progress", '{"type":"tool.progress","data":{}}')]
        return self.run.pk in self.do(append.append_many([append.Batch(self.run.pk, fence, number, drafts)]))

    def dispatches(self, fence: int, path: str = "1", effect: str = "write", bound: float = 3600.0) -> Any:
        call = dispatch.StepCall(path, "tool", "create_invoice", {}, path * 64, effect)
        return self.do(
            dispatch.dispatch(
                run_id=self.run.pk, fence=fence, worker=f"worker-{fence}", step=call, nonce=new_id(),
                operation=dispatch.OperationCall(self.key(path), False, True, bound),
            )
        )  # fmt: skip

    def records(self, fence: int, sent: Any, state: str, *, gave_up: bool = True) -> Any:
        """The holder records what became of a call: succeeded, failed, unknown or refuted."""
        outcome = steps.OperationOutcome(state, {"proof": "test"}, gave_up=gave_up)
        word = "finished" if state == "succeeded" else "failed"
        return self.do(
            steps.finish_step(run_id=self.run.pk, fence=fence, step_id=sent.step_id, state=word, outcome=outcome)
        )

    def leaves_evidence(self, fence: int, path: str = "1", *, happened: bool = True) -> None:
        self.do(
            operations.record_evidence(
                operation_id=self.operation(path).pk, fence=fence, kind="receipt", happened=happened,
                detail={"proof": "late"},
            )
        )  # fmt: skip

    def calls_unknown(self, fence: int, path: str = "1") -> Any:
        return self.do(
            operations.mark_unknown(
                run_id=self.run.pk, fence=fence, operation_id=self.operation(path).pk, message="nobody could tell"
            )
        )

    def finishes(self, fence: int, status: Status = Status.COMPLETED) -> Any:
        return self.do(endings.finish_run(run_id=self.run.pk, fence=fence, status=status, result=1))

    def parks(self, fence: int) -> Any:
        return self.do(endings.park(run_id=self.run.pk, fence=fence))

    def asks(self, fence: int) -> UUID:
        call = dispatch.StepCall("9", "ask", "ask", {}, "9" * 64)
        asked = self.do(
            waiting.ask(
                run_id=self.run.pk, fence=fence, step=call, question_id=new_id(), prompt="?", schema={},
                timeout_seconds=60.0,
            )
        )  # fmt: skip
        assert isinstance(asked, waiting.Asked), asked
        return asked.question_id

    def waits(self, fence: int, wakes: int = 0) -> Any:
        return self.do(waiting.wait(run_id=self.run.pk, fence=fence, wakes=wakes, waiting_for="input"))

    # -- the others ----------------------------------------------------------------------------------------------------
    def cancels(self) -> Any:
        return self.do(cancels.request_cancel(run_id=self.run.pk, reason=CancelReason.USER))

    def answers(self) -> Any:
        question = Question.objects.get(run=self.run)
        return self.do(
            waiting.answer(run_id=self.run.pk, question_id=question.pk, value=1, by=self.user_id, by_name="x")
        )

    def supervisor_settles(self) -> Any:
        return self.do(endings.end_cancel(run_id=self.run.pk))

    def look_up_settles(self, path: str = "1", **how: Any) -> Any:
        return self._settle(path, self.target.look_up(self.key(path)), "look_up", how)

    def verdict(self, path: str = "1", *, happened: bool, **how: Any) -> Any:
        return self._settle(path, happened, "verdict", how)

    def _settle(self, path: str, happened: bool, source: str, how: dict[str, Any]) -> Any:
        operation = self.operation(path)
        return self.do(
            operations.settle(
                operation_id=operation.pk, version=operation.version, happened=happened, source=source, detail={}, **how
            )
        )

    def retries(self) -> Any:
        return self.do(retry.retry(retry.Wish(run_id=self.run.pk, user_id=self.user_id, user_name="x")))
