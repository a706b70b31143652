"""One dispatched tool call: run the adapter, find out what it did, store what is known.

A call with an effect outside runs in a task of its own, so that no cancel of the agent cuts its receipt. After a
lost fence it only leaves evidence (RULES H7).
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from runs.clock import clock
from runs.conf import limits
from runs.decisions.claims import Lost
from runs.decisions.steps import Done, OperationOutcome, finish_step
from runs.execution import receipts
from runs.execution.claim import Claim
from runs.execution.evidence import keep_evidence
from runs.execution.gate import Begun
from runs.execution.look_up import find_out, question_of
from runs.execution.outlet import OutletClosed
from runs.failpoints import hit
from runs.frames import draft
from runs.ids import text_id
from runs.states import OperationState
from runs.unprivileged import make_workspace
from tools.call import ToolCall
from tools.effects import JSON, Outcome, Receipt
from tools.scope import CancelReason, ScopeCancelled, boottime
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)

LANDED = """
select s.state, o.state as operation_state from runs_step s left join runs_operation o on o.step_id = s.id
where s.id = %(step)s and (s.state <> 'open' or o.state <> 'dispatched')"""


@dataclass(frozen=True, slots=True)
class Known:
    """What a call came to.

    is_unknown: the ledger says so, whatever the receipt says (RULES H8). is_late: its permit was void before it began.
    """

    receipt: Receipt
    is_unknown: bool = False
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class DispatchedCall:
    """A call that may begin.

    tries: the number of this one; may_come_again: it is dispatched anew if it comes too late for its permit.
    """

    claim: Claim
    spec: ToolSpec
    arguments: dict[str, JSON]
    begun: Begun
    key: str
    tries: int = 1
    may_come_again: bool = False

    async def run(self) -> Known:
        """Make the call and store its outcome. Raises: ScopeCancelled (reads; any call after a lost fence)."""
        await hit("after_dispatch_before_receipt")
        call = self._tool_call()
        try:
            with self.claim.held.permit_in_use(self.begun.permit):
                receipt = await self.spec.call(call, self.arguments)
        except (ScopeCancelled, asyncio.CancelledError) as stop:
            if isinstance(stop, ScopeCancelled) and self.begun.operation_id is None:
                await self._drop(stop.reason)
                raise
            cut = self._cut()
            if cut is None:
                raise
            receipt = cut
        await hit("after_receipt_before_commit")
        if receipt.outcome is Outcome.UNKNOWN and self.begun.operation_id is not None:
            with contextlib.suppress(OutletClosed):  # only told where the claim is still ours
                await self._progress({"state": "looking_up", "message": receipt.error or receipt.proof})
            receipt = await self._look_up() or receipt
        if self.claim.held.is_lost:
            await self._leave_evidence(receipt)
            self.claim.lost()
        known = await self._store(receipt)
        self.claim.release(call.process_key)
        return known

    def _tool_call(self) -> ToolCall:
        claim = self.claim
        return ToolCall(
            run_id=claim.run_text,
            step_id=text_id("step", self.begun.step_id),
            tenant_id=claim.run["tenant_id"].hex,
            user_id=str(claim.run["created_by_id"]),
            operation_key=self.key,
            fence=claim.held.fence,
            permit=self.begun.permit,
            scope=claim.scope,
            workspace=make_workspace(claim.workspace, claim.hands.user),
            settings=claim.hands.settings,
            processes=claim.hands.processes,
            progress=self._progress,
            terminals=claim.hands.terminals,
            user=claim.hands.user,
        )

    async def _progress(self, data: JSON) -> None:
        """Show what the tool says meanwhile; a tool that says more than can be stored waits here."""
        outlet = self.claim.held.outlet
        shown = {"data": receipts.shorten(data)}
        outlet.push(draft(self.claim.origin, "tool.progress", shown, at=clock.now(), step_id=self.begun.step_id))
        if outlet.is_full:
            await outlet.room()

    def _cut(self) -> Receipt | None:
        """The stop deadline (or the end of a drain) cut the call: judge by whether it had begun."""
        reason = self.claim.scope.reason
        if self.begun.operation_id is None or reason is CancelReason.DRAIN:
            return None  # the next claim does a read again, and looks a write up
        if self.spec.adopt is not None and reason is CancelReason.LOST:
            return None  # it lives on: the next claim adopts it
        if not self.begun.permit.give_back():
            return Receipt(Outcome.UNKNOWN, proof="no answer", error="The run was stopped before an answer came.")
        return Receipt(Outcome.FAILED, proof="nothing was sent", error="The run was stopped.", code="permit_expired")

    async def _look_up(self) -> Receipt | None:
        """Our own call gave up waiting: ask the target, as long as the run may (RULES H6)."""
        assert self.begun.operation_id is not None
        bound = limits().permit_seconds + self.spec.request_timeout_seconds + self.spec.target_bound_seconds
        horizon = self.begun.began_at + bound

        async def nothing_can_land() -> bool:
            return boottime() >= horizon

        question = question_of(
            self.claim, key=self.key, arguments=self.arguments, dispatched_at=self.begun.dispatched_at
        )
        until = boottime() + min(limits().look_up_seconds, self.claim.scope.remaining())
        return await find_out(
            self.claim,
            self.spec,
            operation_id=self.begun.operation_id,
            fence=self.claim.held.fence,
            question=question,
            until=until,
            nothing_can_land=nothing_can_land,
        )

    async def _drop(self, reason: CancelReason) -> None:
        """A read was dropped by a stop; a lost or leaving claim leaves its step to the next one."""
        if reason in (CancelReason.LOST, CancelReason.DRAIN):
            return
        error = {"code": "stopped", "message": "The run was stopped."}
        await self._finish(state="abandoned", error=error, tool={"ok": False, "error": error, "stopped": True})

    async def abandon(self) -> None:
        """Close the step of a read whose await the agent itself has cut (a timeout of its own)."""
        error = {"code": "abandoned", "message": "The agent stopped waiting."}
        await self._finish(state="abandoned", error=error, tool={"ok": False, "error": error})

    async def _store(self, receipt: Receipt) -> Known:
        is_late = receipt.code == "permit_expired" and self._comes_again()
        if receipt.outcome is Outcome.SUCCEEDED:
            how: dict[str, Any] = {"state": "finished", "result": receipt.value}
        elif is_late:
            how = {"state": "superseded"}
        else:
            error = receipts.as_error(receipts.failure(self.spec.name, receipt))
            how = {"state": "failed", "error": error | {"tries": self.tries}}
        if self.begun.operation_id is not None:
            how["outcome"] = OperationOutcome(
                state=self._ledger_word(receipt).value,
                receipt=receipts.as_json(receipt, stopped=self._was_stopped(receipt)),
                gave_up=True,
            )
        told = receipts.shown(receipt, was_cancelled=self._was_cancelled(receipt))
        done = await self._finish(tool=told, **how)
        return Known(receipt, is_unknown=done.operation_state == OperationState.UNKNOWN, is_late=is_late)

    def _comes_again(self) -> bool:
        """Say whether a call that has not begun is dispatched anew: here, or by the next claim if this one leaves."""
        reason = self.claim.scope.reason
        return reason is CancelReason.DRAIN or (reason is None and self.may_come_again)

    def _ledger_word(self, receipt: Receipt) -> OperationState:
        if receipt.outcome is Outcome.UNKNOWN:
            return OperationState.UNKNOWN
        if receipt.outcome is Outcome.SUCCEEDED or self._was_stopped(receipt):
            return OperationState.SUCCEEDED
        if receipt.code in ("permit_expired", "not_happened"):
            return OperationState.REFUTED
        return OperationState.FAILED

    def _was_stopped(self, receipt: Receipt) -> bool:
        """True for a process that we ended: it has run, so it is no refusal, and its tree is proven gone."""
        return self.spec.process and receipt.outcome is Outcome.FAILED and receipt.code in receipts.STOPPED

    def _was_cancelled(self, receipt: Receipt) -> bool:
        """True where a stop of the run has ended the call, or kept it from beginning: neither is the tool's word."""
        if self.claim.scope.reason in (None, CancelReason.LOST, CancelReason.DRAIN):
            return False
        if receipt.outcome is not Outcome.FAILED or receipt.code == "timeout":
            return False
        return receipt.code == "permit_expired" or self._was_stopped(receipt)

    async def _finish(self, **how: Any) -> Done:
        claim, step_id = self.claim, self.begun.step_id

        async def landed() -> Done | None:
            rows = await claim.fetch(LANDED, step=step_id)
            return Done(rows[0]["operation_state"]) if rows else None

        try:
            await claim.held.outlet.flush()
            answer = await claim.decide(
                lambda: finish_step(run_id=claim.origin.run_id, fence=claim.held.fence, step_id=step_id, **how),
                landed=landed,
            )
        except (OutletClosed, ScopeCancelled):  # the claim was lost while we tried
            answer = Lost()
        if isinstance(answer, Lost):
            if (outcome := how.get("outcome")) is not None:
                await self._keep(outcome.receipt, outcome.state)
            claim.lost()
        return answer

    async def _leave_evidence(self, receipt: Receipt) -> None:
        await self._keep(
            receipts.as_json(receipt, stopped=self._was_stopped(receipt)), self._ledger_word(receipt).value
        )

    async def _keep(self, detail: dict[str, Any], word: str) -> None:
        """Store a receipt that we may not record: as evidence, which needs no fence (RULES H7)."""
        if self.begun.operation_id is None or word == OperationState.UNKNOWN:
            return
        happened = word == OperationState.SUCCEEDED
        await keep_evidence(
            self.claim,
            operation_id=self.begun.operation_id,
            fence=self.claim.held.fence,
            kind="receipt" if happened else "refusal",
            happened=happened,
            detail=detail,
        )
        logger.warning("tool.late_receipt", extra={"run_id": self.claim.run_text, "operation_key": self.key})
