"""Asking a target what became of one operation, again and again for a bounded time.

A positive answer counts at once. A negative one counts only when nothing can land any more (RULES H6): the caller
says from when on that is so, or the target has sealed the key.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.execution.claim import Claim
from runs.execution.evidence import keep_evidence
from tools.call import LookUpCall
from tools.effects import LookUp, Outcome, Receipt
from tools.scope import CancelReason, boottime
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 16.0

type NothingCanLand = Callable[[], Awaitable[bool]]


async def find_out(
    claim: Claim,
    spec: ToolSpec,
    *,
    operation_id: UUID,
    fence: int,
    question: LookUpCall,
    until: float,
    nothing_can_land: NothingCanLand,
) -> Receipt | None:
    """Look up at once, then after 1, 2, 4 ... s, until `until` (CLOCK_BOOTTIME) or the run's stop deadline.

    Returns a receipt: SUCCEEDED when the target has it, FAILED ("not_happened") when it has not and never will; None
    when nobody could tell in time, or this worker lost or leaves the run. Every answer is kept as evidence of the
    dispatch with `fence`.
    """
    if spec.look_up is None or not spec.can_look_up(question.settings):
        return None
    pause = 1.0
    while True:
        found = await _ask(claim, spec, question)
        receipt = await _judge(claim, found, operation_id, fence, nothing_can_land)
        if receipt is not None:
            return receipt
        end = until if claim.stop_by is None else min(until, claim.stop_by)
        left = end - boottime()
        if left <= 0 or claim.scope.reason in (CancelReason.LOST, CancelReason.DRAIN):
            return None
        await _sleep(claim, min(pause, left))
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def _judge(
    claim: Claim, found: LookUp, operation_id: UUID, fence: int, nothing_can_land: NothingCanLand
) -> Receipt | None:
    if found.found is None:
        return None
    is_final = found.found or found.sealed or await nothing_can_land()
    detail: dict[str, Any] = {"found": found.found, "sealed": found.sealed, "raw": found.raw, "proof": "look-up"}
    if is_final:
        await keep_evidence(
            claim, operation_id=operation_id, fence=fence, kind="look_up", happened=found.found, detail=detail
        )
    if found.found:
        return found.receipt or Receipt(Outcome.SUCCEEDED, proof="look-up")
    if is_final:
        return Receipt(
            Outcome.FAILED,
            proof="look-up",
            retryable=True,
            error="The target does not have it, and it cannot arrive any more.",
            code="not_happened",
        )
    return None


async def _ask(claim: Claim, spec: ToolSpec, question: LookUpCall) -> LookUp:
    assert spec.look_up is not None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await spec.look_up(question)
    except Exception as error:  # an adapter may raise anything; not being able to tell is an answer too
        logger.warning(
            "operation.look_up_failed", extra={"run_id": claim.run_text, "tool": spec.name, "error": repr(error)}
        )
        return LookUp(found=None)


async def _sleep(claim: Claim, seconds: float) -> None:
    """Sleep, but look again at once when a stop arrives: it may be the last look before the stop deadline."""
    if claim.scope.reason is not None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await claim.scope.cancel_event.wait()


def question_of(claim: Claim, *, key: str, arguments: dict[str, Any], dispatched_at: datetime) -> LookUpCall:
    """Make the question about one operation."""
    return LookUpCall(
        operation_key=key, settings=claim.hands.settings, arguments=arguments, dispatched_at=dispatched_at
    )
