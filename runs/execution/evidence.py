"""Keeping what this worker learnt about one dispatch, also after its fence was lost (RULES H7)."""

import asyncio
import logging
from typing import Any
from uuid import UUID

import psycopg

from runs.conf import limits
from runs.decisions.operations import record_evidence
from runs.errors import Busy
from runs.execution.claim import Claim
from tools.scope import boottime

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5


async def keep_evidence(
    claim: Claim, *, operation_id: UUID, fence: int, kind: str, happened: bool | None, detail: dict[str, Any]
) -> None:
    """Store evidence of the dispatch with `fence`; try for as long as a stop takes, then log it as the last resort.

    A repeat after an unclear commit may leave two equal rows: evidence is only read, so that is no harm.
    """
    until = boottime() + limits().stop_deadline_seconds
    while True:
        try:
            await claim.hands.database.decide(
                record_evidence(operation_id=operation_id, fence=fence, kind=kind, happened=happened, detail=detail)
            )
            return
        except (psycopg.OperationalError, Busy) as error:
            if boottime() >= until:
                logger.error(
                    "evidence.not_stored",
                    extra={"run_id": claim.run_text, "operation": operation_id.hex, "kind": kind, "error": str(error)},
                )
                return
            await asyncio.sleep(PAUSE_SECONDS)
