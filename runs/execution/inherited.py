"""What a new claim makes of an operation that an older one began: reuse, find out, or park (RULES H9)."""

import asyncio
from typing import Any

from runs.conf import limits
from runs.decisions.claims import Lost
from runs.decisions.core import Fact, Row
from runs.decisions.dispatch import InOperation, Refused, StepCall
from runs.decisions.operations import mark_unknown
from runs.decisions.steps import Done, OperationOutcome, finish_step, instant_step
from runs.execution import receipts
from runs.execution.adopted import adopt
from runs.execution.claim import Claim
from runs.execution.earlier import StoredStep
from runs.execution.gate import refused
from runs.execution.look_up import find_out, question_of
from runs.execution.reuse import STORED_STEP
from runs.execution.signals import OperationContradicted
from runs.execution.tool_call import LANDED, Known
from runs.ids import text_id
from runs.states import OperationState
from tools.effects import JSON, Outcome, Receipt
from tools.processes.results import TreeProof
from tools.scope import CancelReason, boottime
from tools.spec import ToolSpec

# A ward kills its tree when its worker dies or the lease is over, both before anybody else gets the claim.
PROOF_WAIT_SECONDS = 3.0
PROOF_POLL_SECONDS = 0.1
UNKNOWN = Known(Receipt(Outcome.UNKNOWN), is_unknown=True)

NOTHING_CAN_LAND = """
select holder_gone_at is not null and horizon_at < clock_timestamp() as is_so
from runs_operation where id = %(operation)s"""
EVIDENCE = """
select detail from runs_evidence where operation_id = %(operation)s and fence = %(fence)s and happened
order by at limit 1"""


async def inherit(
    claim: Claim, spec: ToolSpec, step: StepCall, stored: StoredStep | None, found: InOperation
) -> Known | None:
    """Return what is known of the operation, stored as this step's end; None when it may be dispatched (again).

    Raises: OperationContradicted where evidence says that what was thought not to have happened did.
    """
    row = found.operation
    state = OperationState(row["state"])
    if state in (OperationState.SUCCEEDED, OperationState.CONFIRMED):
        return await _reuse(claim, spec, step, stored, row)
    if row["contradicted_at"] is not None:
        raise OperationContradicted(row["key"])
    if state is OperationState.FAILED:
        return Known(_refusal(row["receipt"] or {}))
    if state is not OperationState.DISPATCHED:
        return UNKNOWN
    lives_on = spec.adopt is not None
    found_out = await asyncio.shield(claim.start_call(_learn_and_record(claim, spec, row), lives_on=lives_on))
    if found_out is None:
        return await _give_up(claim, spec, step, stored, row)
    receipt, done = found_out
    if done.operation_state == OperationState.UNKNOWN:
        return UNKNOWN
    return None if receipt.code == "not_happened" else Known(receipt)


async def _learn_and_record(claim: Claim, spec: ToolSpec, row: Row) -> tuple[Receipt, Done] | None:
    """In a task of its own: what is learnt of a call that still runs must not be cut with the agent."""
    receipt = await learn(claim, spec, row)
    return None if receipt is None else (receipt, await record(claim, spec, row, receipt))


async def learn(claim: Claim, spec: ToolSpec, row: Row) -> Receipt | None:
    """Find out what an older claim's dispatch came to: stored evidence, the ward's proof, the target."""
    kept = await claim.fetch(EVIDENCE, operation=row["id"], fence=row["fence"])
    if kept:
        detail = kept[0]["detail"]
        if detail.get("outcome") == Outcome.FAILED:
            return _interrupted(detail.get("proof"))  # a process that ran, and that the lost claim has stopped
        return Receipt(
            Outcome.SUCCEEDED,
            value=detail.get("value"),
            proof=detail.get("proof") or "evidence",
            external_id=detail.get("external_id"),
        )
    if spec.adopt is not None:
        return await adopt(claim, spec.adopt, row)
    if row["is_process"]:
        return await _proof_of_process(claim, _process_key(claim, row))

    async def nothing_can_land() -> bool:
        return bool((await claim.fetch(NOTHING_CAN_LAND, operation=row["id"]))[0]["is_so"])

    return await find_out(
        claim,
        spec,
        operation_id=row["id"],
        fence=row["fence"],
        question=question_of(claim, key=row["key"], arguments=row["arguments"], dispatched_at=row["dispatched_at"]),
        until=boottime() + min(limits().look_up_seconds, claim.scope.remaining()),
        nothing_can_land=nothing_can_land,
    )


async def record(claim: Claim, spec: ToolSpec, row: Row, receipt: Receipt) -> Done:
    """Store what was learnt about an older dispatch as the end of its step. Raises: ScopeCancelled(LOST)."""
    word, state = OperationState.SUCCEEDED, "finished"
    how: dict[str, Any] = {"result": receipt.value}
    if receipt.outcome is Outcome.UNKNOWN:
        word, state = OperationState.UNKNOWN, "open"
    elif receipt.code == "not_happened":
        word, state, how = OperationState.REFUTED, "superseded", {}
    elif receipt.outcome is Outcome.FAILED:  # an interrupted process: it ran, and it is proven gone
        state, how = "failed", {"error": receipts.as_error(receipts.failure(spec.name, receipt))}
    stored = receipts.as_json(receipt, stopped=receipt.code in receipts.STOPPED)

    async def landed() -> Done | None:
        rows = await claim.fetch(LANDED, step=row["step_id"])
        return Done(rows[0]["operation_state"]) if rows else None

    answer = await claim.decide(
        lambda: finish_step(
            run_id=claim.origin.run_id,
            fence=claim.held.fence,
            step_id=row["step_id"],
            state=state,
            outcome=OperationOutcome(state=word.value, receipt=stored),
            tool=receipts.shown(receipt),
            **how,
        ),
        landed=landed,
    )
    if isinstance(answer, Lost):
        claim.lost()
    claim.release(_process_key(claim, row))
    return answer


def _process_key(claim: Claim, row: Row) -> str:
    return f"{claim.run_text}/{text_id('step', row['step_id'])}"


def _interrupted(proof: str | None) -> Receipt:
    return Receipt(
        Outcome.FAILED,
        proof=proof or "evidence",
        retryable=True,
        error="The command was stopped when its worker went away.",
        code="interrupted",
    )


def _ended(proof: TreeProof) -> Receipt:
    """A command that was over before its worker was lost: how it ended is known, what it printed is not."""
    status = proof.status
    assert status is not None  # that it ended by itself is known from its exit
    exit_code, number = (status, None) if status >= 0 else (None, -status)
    value: JSON = {"exit_code": exit_code, "signal": number, "stdout": "", "stderr": "", "output_lost": True}
    return Receipt(Outcome.SUCCEEDED, value=value, proof="process tree empty")


async def _proof_of_process(claim: Claim, key: str) -> Receipt | None:
    until = boottime() + PROOF_WAIT_SECONDS
    while True:
        proof = claim.hands.processes.proof_of(key)
        if proof is not None and proof.gone:
            return _ended(proof) if proof.by_itself else _interrupted("process tree empty")
        if boottime() >= until or claim.scope.reason is CancelReason.LOST:
            return None  # another host, or no proof: nobody can say what it did
        await asyncio.sleep(PROOF_POLL_SECONDS)


async def _give_up(claim: Claim, spec: ToolSpec, step: StepCall, stored: StoredStep | None, row: Row) -> Known | None:
    """Nobody could tell in time: the operation is unknown, unless a receipt arrived as evidence meanwhile."""
    claim.scope.raise_if_cancelled()  # a stop judges by itself, from the ledger
    message = "The worker that sent it is gone, and nobody could tell what became of it."
    answer = await claim.decide(
        lambda: mark_unknown(
            run_id=claim.origin.run_id, fence=claim.held.fence, operation_id=row["id"], message=message
        )
    )
    if isinstance(answer, Lost):
        claim.lost()
    if not answer:
        return UNKNOWN
    fresh = await claim.fetch("select * from runs_operation where id = %(id)s", id=row["id"])
    return await _reuse(claim, spec, step, stored, fresh[0])


async def _reuse(claim: Claim, spec: ToolSpec, step: StepCall, stored: StoredStep | None, row: Row) -> Known:
    """Take a committed operation's receipt as this step's result."""
    receipt = row["receipt"] or {}
    value = receipts.value_of(receipt)
    known = Receipt(Outcome.SUCCEEDED, value=value, proof=receipt.get("proof") or "ledger")
    run_id, fence, shown = claim.origin.run_id, claim.held.fence, receipts.shown(known)
    if stored is not None and stored.id == row["step_id"]:
        answer: Any = await claim.decide(
            lambda: finish_step(
                run_id=run_id, fence=fence, step_id=stored.id, state="finished", result=value, tool=shown
            )
        )
    else:
        started = {"tool": spec.name, "effect": spec.effect.value, "arguments": spec.redacted(step.arguments)}
        facts = [Fact("tool.started", started | {"operation_key": row["key"]}), Fact("tool.result", shown)]

        async def landed() -> Done | None:
            rows = await claim.fetch(STORED_STEP, stream=claim.origin.stream_id, path=step.path)
            return Done(None) if rows else None

        answer = await claim.decide(
            lambda: instant_step(
                run_id=run_id, fence=fence, step=step, result=value, facts=facts, operation_id=row["id"]
            ),
            landed=landed,
        )
    if isinstance(answer, Lost):
        claim.lost()
    if isinstance(answer, Refused):
        await refused(claim, answer.reason)
    return Known(known)


def _refusal(receipt: dict[str, Any]) -> Receipt:
    return Receipt(
        Outcome.FAILED,
        proof=receipt.get("proof") or "ledger",
        error=receipt.get("error") or "The tool refused.",
        code=receipt.get("code") or "tool_error",
    )
