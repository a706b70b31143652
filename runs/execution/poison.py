"""A run whose step has killed three workers: its agent does not run again, and what it had sent is looked up."""

import logging
from typing import Any

from runs.decisions.core import Row
from runs.decisions.endings import NotEnded, finish_run, park
from runs.decisions.operations import mark_unknown
from runs.execution.child_step import children_may_have_ended, leave_no_child
from runs.execution.claim import Claim
from runs.execution.stopping import DISPATCHED, settle_inherited, stop_inherited
from runs.execution.walk import look, watching
from runs.states import Status

logger = logging.getLogger(__name__)

WORST = """
select path, name, deaths from runs_step where stream_id = %(stream)s and deaths > 0
order by deaths desc, started_at desc limit 1"""


async def end_poisoned(claim: Claim) -> None:
    """End the run as failed(worker_lost), or in needs_reconciliation if an operation or a child is unknown."""
    async with watching(claim):
        await settle_inherited(claim)
        for row in await claim.fetch(DISPATCHED, run=claim.origin.run_id):  # of a tool that is not here any more
            await _leave_unknown(claim, row)
        message = await _message(claim)
        await leave_no_child(claim)
        reason = await _end(claim, message)
        while reason == "children":
            await children_may_have_ended(claim)
            reason = await _end(claim, message)
    if reason == "cancel":
        if claim.stop_by is None:
            await look(claim)
        await stop_inherited(claim)
    elif reason is not None:
        logger.warning("run.not_ended", extra={"reason": reason})


async def _end(claim: Claim, message: str) -> str | None:
    """Return why it could not be ended; None when it was."""
    ids: dict[str, Any] = {"run_id": claim.origin.run_id, "fence": claim.held.fence}
    answer = await claim.decide(
        lambda: finish_run(**ids, status=Status.FAILED, error_code="worker_lost", error_message=message)
    )
    if isinstance(answer, NotEnded) and answer.reason == "open":
        answer = await claim.decide(lambda: park(**ids))
    if isinstance(answer, NotEnded):
        return answer.reason
    logger.warning("run.poisoned", extra={"status": answer.status.value, "run_id": claim.run_text})
    return None


async def _leave_unknown(claim: Claim, row: Row) -> None:
    await claim.decide(
        lambda: mark_unknown(
            run_id=claim.origin.run_id,
            fence=claim.held.fence,
            operation_id=row["id"],
            message="Its workers died, and nobody could tell what became of it.",
        )
    )


async def _message(claim: Claim) -> str:
    rows = await claim.fetch(WORST, stream=claim.origin.stream_id)
    where = f"step {rows[0]['path']} ({rows[0]['name']}) was open" if rows else "it held this run"
    return (
        f"The worker process died {claim.run['deaths']} times while {where}, the last time with nothing else in it. "
        "The run was ended so that it harms no others."
    )
