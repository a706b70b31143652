"""Any sequence of commands and decisions: each answers as the rules say, and leaves what the rules say.

What people do goes through runs.services, what workers and supervisors do through the decisions. Hypothesis chooses
what happens next on one run (stale fences, wrong numbers and repeats among it), and shrinks what breaks with
OUTLIVE_SHRINK=1. OUTLIVE_EXAMPLES=n makes n sequences that no run before has made.
"""

import os
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from runs import services
from runs.database import decide
from runs.decisions import append, cancels, claims, dispatch, endings, operations, steps, waiting
from runs.errors import HasReceipt, NotRetriable, RuleBroken, StaleVersion, TooLate
from runs.frames import Draft, Origin
from runs.ids import new_id
from runs.models import Operation, Question, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_run, silent
from tests.explore.invariants import check_change, check_rows
from tests.races.invariants import read
from tests.races.rules_model import Rules

PHASES = list(Phase) if "OUTLIVE_SHRINK" in os.environ else [Phase.generate]
EXAMPLES = int(os.environ.get("OUTLIVE_EXAMPLES", "0"))
WORKERS = st.sampled_from(["worker-a", "worker-b"])
BEHIND = st.sampled_from([0, 0, 0, 0, 0, 1, 2])  # how far a fence or a count is behind that of the row
YES = st.booleans()
OUTCOMES = st.sampled_from(["succeeded", "failed", "unknown", "refuted"])
EFFECTS = {"w1": "write", "w2": "write", "i1": "idempotent"}


class OneRun(RuleBasedStateMachine):
    """A run in PostgreSQL beside the rules' own idea of it."""

    owner: Any = None
    operator: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.rolled_back = transaction.atomic()
        self.rolled_back.__enter__()
        self.run = a_run(self.owner, deadline_seconds=3600.0)
        self.rules = Rules()
        self.calls = 0
        self.rows = read(self.run.pk)

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.rolled_back.__exit__(None, None, None)

    def do(self, decision: Any) -> Any:
        return decide(decision, ring=silent)

    def ids(self, behind: int) -> tuple[dict[str, Any], int]:
        fence = max(0, self.rules.fence - behind)
        return {"run_id": self.run.pk, "fence": fence}, fence

    def past(self, rows: Any, name: str) -> int:
        changed: int = rows.update(**{name: timezone.now() - timedelta(seconds=1)})
        return changed

    def row(self) -> Any:
        return Run.objects.filter(pk=self.run.pk)

    # -- time passes ---------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.rules.is_live)
    @rule()
    def lease_passes(self) -> None:
        self.past(self.row(), "lease_until")
        self.rules.is_live = False

    @precondition(lambda self: self.rules.status in ("cancel_requested", "cancelling"))
    @rule()
    def stop_deadline_passes(self) -> None:
        self.past(self.row(), "stop_deadline_at")
        self.rules.is_stop_late = True

    @precondition(lambda self: self.rules.status == "running" and len(self.rules.ops) > 1)
    @rule()
    def deadline_passes(self) -> None:
        self.past(self.row(), "deadline_at")
        self.rules.is_late = True

    @precondition(lambda self: self.rules.question == "open")
    @rule()
    def question_is_overdue(self) -> None:
        self.past(Question.objects.filter(run=self.run, state="open"), "expires_at")
        self.rules.is_question_late = True

    # -- claims --------------------------------------------------------------------------------------------------------
    @rule(worker=WORKERS)
    def claim(self, worker: str) -> None:
        # Alone, so that deaths bar nobody: they are counted for tests/runs/decisions/test_deaths.py.
        claim = claims.claim(run_id=self.run.pk, worker=worker, lease_seconds=3600.0, is_alone=True)
        claimed = self.do(claim)
        assert self.rules.claim(worker) == ("claimed" if isinstance(claimed, claims.Claimed) else "no")

    @rule(worker=WORKERS, behind=BEHIND)
    def renew(self, worker: str, behind: int) -> None:
        fence = max(0, self.rules.fence - behind)
        words = self.do(claims.renew(worker=worker, held={self.run.pk: fence}, lease_seconds=3600.0))
        assert words[self.run.pk] == self.rules.renew(worker, fence)

    @precondition(lambda self: self.rules.is_asked)
    @rule(behind=BEHIND)
    def see_cancel(self, behind: int) -> None:
        ids, fence = self.ids(behind)
        seen = self.do(claims.see_cancel(**ids))
        word = "none" if seen is None else type(seen).__name__.lower()
        assert word == self.rules.see_cancel(fence)

    @rule(behind=BEHIND, force=YES)
    def release(self, behind: int, force: bool) -> None:
        ids, fence = self.ids(behind)
        released = self.do(claims.release(**ids, even_in_flight=force))
        assert type(released).__name__.lower() == self.rules.release(fence, force)

    @rule(worker=WORKERS)
    def worker_dies(self, worker: str) -> None:
        taken = self.do(claims.take_from_dead(run_id=self.run.pk, worker=worker))
        assert str(taken) == self.rules.take_away(self.rules.owner == worker)

    @rule()
    def sweep_leases(self) -> None:
        assert str(self.do(claims.expire_lease(run_id=self.run.pk))) == self.rules.take_away(not self.rules.is_live)

    @rule(behind=BEHIND, ahead=st.sampled_from([0, 1, 1, 2]))
    def append(self, behind: int, ahead: int) -> None:
        number = self.rules.batch + ahead
        if number == 0:
            return  # the first batch of a claim is 1
        fence = max(0, self.rules.fence - behind)
        drafts = [Draft("tool.progress", '{"type":"tool.progress","data":{}}')]
        stored = self.do(append.append_many([append.Batch(self.run.pk, fence, number, drafts)]))
        assert self.rules.append(fence, number) == ("stored" if self.run.pk in stored else "lost")

    # -- calls ---------------------------------------------------------------------------------------------------------
    @rule(behind=BEHIND, path=st.sampled_from(["model", "read", *EFFECTS, *EFFECTS]))
    def dispatch(self, behind: int, path: str) -> None:
        ids, fence = self.ids(behind)
        has_ledger = path in EFFECTS
        effect = EFFECTS.get(path) or (path if path == "read" else None)
        if not has_ledger:
            self.calls += 1
            path = f"{path}{self.calls}"
        call = dispatch.StepCall(path, "tool" if effect else "model", "t", {}, path * 8, effect)
        begin = dispatch.dispatch(
            **ids, worker="w", step=call, nonce=new_id(),
            operation=dispatch.OperationCall(self.key(path), False, True, 0.0) if has_ledger else None,
            message_id=None if effect else new_id(),
            origin=Origin(self.run.pk, self.rows["run"]["attempt"], UUID(self.rows["run"]["stream_id"])),
        )  # fmt: skip
        answer = self.do(begin)
        word = {"Dispatched": "dispatched", "InOperation": "in operation"}.get(type(answer).__name__)
        assert (word or answer.reason) == self.rules.dispatch(fence, path, effect)

    def key(self, path: str) -> str:
        return f"{self.run.pk.hex}:{path}"

    def operation(self, path: str) -> Operation:
        return Operation.objects.get(key=self.key(path))

    def step(self, path: str) -> Step:
        return Step.objects.get(attempt_id=self.rows["run"]["stream_id"], path=path)

    @precondition(lambda self: self.rules.calls)
    @rule(behind=BEHIND, data=st.data())
    def finish_call(self, behind: int, data: st.DataObject) -> None:
        ids, fence = self.ids(behind)
        path = data.draw(st.sampled_from(sorted(self.rules.calls)))
        ended = self.do(steps.finish_step(**ids, step_id=self.step(path).pk, state="finished"))
        assert self.word(ended) == self.rules.finish_step(fence, path, None, False, False)

    def in_flight(self) -> list[str]:
        return sorted(path for path, op in self.rules.ops.items() if op.state == "dispatched")

    @precondition(lambda self: self.in_flight())
    @rule(behind=BEHIND, data=st.data(), outcome=OUTCOMES, retryable=YES, gave_up=YES)
    def receipt(self, behind: int, data: st.DataObject, outcome: str, retryable: bool, gave_up: bool) -> None:
        ids, fence = self.ids(behind)
        path = data.draw(st.sampled_from(self.in_flight()))
        how = steps.OperationOutcome(outcome, {"retryable": retryable}, gave_up=gave_up)
        state = "finished" if outcome == "succeeded" else "failed"
        step_id = self.operation(path).step_id
        ended = self.do(steps.finish_step(**ids, step_id=step_id, state=state, outcome=how))
        assert self.word(ended) == self.rules.finish_step(fence, path, outcome, retryable, gave_up)
        again = self.do(steps.finish_step(**ids, step_id=step_id, state=state, outcome=how))
        assert self.word(again) == self.word(ended), "told again, it is no other outcome"

    def word(self, ended: Any) -> str:
        return f"done {ended.operation_state}" if isinstance(ended, steps.Done) else "lost"

    @precondition(lambda self: self.in_flight())
    @rule(behind=BEHIND, data=st.data())
    def end_without_outcome(self, behind: int, data: st.DataObject) -> None:
        ids, fence = self.ids(behind)
        path = data.draw(st.sampled_from(self.in_flight()))
        end = steps.finish_step(**ids, step_id=self.operation(path).step_id, state="finished")
        if fence == self.rules.fence and not self.rules.is_ended:
            with pytest.raises(RuleBroken):
                self.do(end)
        else:
            assert self.do(end) == claims.Lost()

    @precondition(lambda self: self.rules.ops)
    @rule(behind=BEHIND, data=st.data())
    def nobody_can_tell(self, behind: int, data: st.DataObject) -> None:
        ids, fence = self.ids(behind)
        path = data.draw(st.sampled_from(sorted(self.rules.ops)))
        told = self.do(operations.mark_unknown(**ids, operation_id=self.operation(path).pk, message=""))
        assert ("lost" if isinstance(told, claims.Lost) else str(told)) == self.rules.mark_unknown(fence, path)
        step = Step.objects.get(pk=self.operation(path).step_id)
        if told is True:  # the receipt was taken; the holder ends the step by it
            self.do(steps.finish_step(**ids, step_id=step.pk, state="finished"))

    @precondition(lambda self: any(op.state in ("dispatched", "unknown", "refuted") for op in self.rules.ops.values()))
    @rule(data=st.data())
    def late_receipt(self, data: st.DataObject) -> None:
        sent = [p for p, op in self.rules.ops.items() if op.state in ("dispatched", "unknown", "refuted")]
        path = data.draw(st.sampled_from(sorted(sent)))
        said = operations.record_evidence(
            operation_id=self.operation(path).pk, fence=self.rules.ops[path].fence, kind="receipt", happened=True,
            detail={"proof": "late"},
        )  # fmt: skip
        self.do(said)
        self.rules.receive(path)

    # -- waiting -------------------------------------------------------------------------------------------------------
    @precondition(lambda self: self.rules.question != "open")
    @rule(behind=BEHIND)
    def ask(self, behind: int) -> None:
        ids, fence = self.ids(behind)
        self.calls += 1
        call = dispatch.StepCall(f"ask{self.calls}", "ask", "ask", {}, "d" * 64)
        asked = self.do(
            waiting.ask(**ids, step=call, question_id=new_id(), prompt="?", schema={}, timeout_seconds=3600.0)
        )
        word = "asked" if isinstance(asked, waiting.Asked) else asked.reason
        assert word == self.rules.ask(fence)

    @precondition(lambda self: self.rules.question == "open")
    @rule(behind=BEHIND, missed=BEHIND)
    def wait(self, behind: int, missed: int) -> None:
        ids, fence = self.ids(behind)
        wakes = self.rules.wakes - missed
        answer = self.do(waiting.wait(**ids, wakes=wakes, waiting_for="input"))
        word = "waiting" if isinstance(answer, waiting.Waiting) else answer.reason
        assert word == self.rules.wait(fence, wakes)

    @precondition(lambda self: self.rules.question)
    @rule(word=st.sampled_from(["answered", "expired"]))
    def close_question(self, word: str) -> None:
        question = Question.objects.filter(run=self.run).latest("asked_at")
        if word == "answered":
            try:
                _, won = services.answer_question(
                    actor=self.owner, run_id=self.run.pk, question_id=question.pk, value=1
                )
            except TooLate:
                won = False
        else:
            won = self.do(waiting.expire_question(run_id=self.run.pk, question_id=question.pk))
        assert self.rules.close_question(word) == ("closed" if won else "too late")

    # -- ends ----------------------------------------------------------------------------------------------------------
    @rule(reason=st.sampled_from([CancelReason.USER, CancelReason.DEADLINE]), really=st.sampled_from([0, 0, 1]))
    def cancel(self, reason: CancelReason, really: int) -> None:
        if not really and not self.rules.is_ended:
            return  # else most sequences would be stopped before anything has happened
        is_overdue_only = reason is CancelReason.DEADLINE
        answer: Any
        if is_overdue_only:
            answer = self.do(cancels.request_cancel(run_id=self.run.pk, reason=reason, overdue_only=True))
        else:
            answer = services.cancel_run(actor=self.owner, run_id=self.run.pk)
        word = self.rules.cancel(is_due=self.rules.is_late or not is_overdue_only)
        if answer is None:
            assert word in ("again", "too late")
            assert is_overdue_only
        else:
            assert ("first" if answer.is_first else "too late" if answer.too_late else "again") == word

    @precondition(lambda self: self.rules.is_asked)
    @rule(behind=st.sampled_from([None, 0, 0, 1]))
    def end_cancel(self, behind: int | None) -> None:
        fence = None if behind is None else max(0, self.rules.fence - behind)
        self.ends(endings.end_cancel(run_id=self.run.pk, fence=fence), self.rules.end_cancel(fence))

    @rule(behind=BEHIND, status=st.sampled_from([Status.COMPLETED, Status.FAILED]), really=st.sampled_from([0, 0, 1]))
    def finish(self, behind: int, status: Status, really: int) -> None:
        ids, fence = self.ids(behind)
        if really:
            self.ends(endings.finish_run(**ids, status=status), self.rules.finish(fence, status.value))

    @precondition(lambda self: self.rules.unknown_ops)
    @rule(behind=BEHIND, has_result=YES)
    def park(self, behind: int, has_result: bool) -> None:
        ids, fence = self.ids(behind)
        self.ends(endings.park(**ids, has_result=has_result), self.rules.park(fence, has_result))

    def ends(self, decision: Any, expected: str) -> None:
        ended = self.do(decision)
        assert (f"ended {ended.status}" if isinstance(ended, endings.Ended) else ended.reason) == expected

    @precondition(lambda self: self.rules.ops)
    @rule(data=st.data(), happened=YES)
    def settle(self, data: st.DataObject, happened: bool) -> None:
        path = data.draw(st.sampled_from(sorted(self.rules.ops)))
        operation = self.operation(path)
        try:
            said = services.settle_operation(
                actor=self.operator, operation_id=operation.pk, version=operation.version,
                outcome="happened" if happened else "not_happened", note="seen", override=True,
            )  # fmt: skip
            word = f"settled {said.run.status}"
        except HasReceipt:
            word = "receipt"
        except StaleVersion:
            word = "decided"
        assert word == self.rules.settle(path, happened)

    @precondition(lambda self: self.rules.is_ended)
    @rule()
    def retry(self) -> None:
        try:
            services.retry_run(actor=self.owner, run_id=self.run.pk)
            word = "retried"
        except NotRetriable as refusal:
            word = {"run_needs_reconciliation": "not_settled", "operation_contradicted": "contradicted"}[refusal.code]
        assert word == self.rules.retry()

    # -- after each ----------------------------------------------------------------------------------------------------
    @invariant()
    def the_row_is_what_the_rules_say(self) -> None:
        before, self.rows = self.rows, read(self.run.pk)
        check_rows(self.rows)
        run, rules = self.rows["run"], self.rules
        seen = {name: run[name] for name in ("status", "fence", "open_ops", "unknown_ops", "attempt")}
        assert seen == {name: getattr(rules, name) for name in seen}
        assert run["lease_owner"] == (rules.owner if not rules.is_ended else None)
        assert (run["cancel_id"] is not None, run["wakes"]) == (rules.is_asked, rules.wakes)
        states = {o["key"].partition(":")[2]: (o["state"], o["contradicted"]) for o in self.rows["operations"]}
        assert states == {path: (op.state, op.contradicted) for path, op in rules.ops.items()}
        if run["version"] - before["run"]["version"] <= 1:
            check_change(before, self.rows)


@pytest.mark.timeout(300)  # some ten seconds where nobody else is at work
def test_every_sequence_answers_as_the_rules_say(owner, operator):
    machine = type("OneRunOfOwner", (OneRun,), {"owner": owner, "operator": operator})
    how = settings(
        max_examples=EXAMPLES or 40, stateful_step_count=30, deadline=None, derandomize=not EXAMPLES, database=None,
        suppress_health_check=list(HealthCheck), phases=PHASES,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)
