"""Finding out what became of unknown operations: stored evidence first, then the target, then the operators.

Only runs that have ended are looked after here; a living claim asks for itself. A look-up reads; it is not work
of the run. A positive answer counts at once, a negative one only when nothing can land any more (RULES H6).
"""

import asyncio
import json
import logging
from typing import Any

from django.db import connection

from runs.conf import limits
from runs.database import decide
from runs.decisions import operations
from runs.ids import text_id
from runs.tool_settings import tool_settings
from tools.call import LookUpCall
from tools.effects import LookUp
from tools.registry import get_tool
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)
LOOK_UP_TIMEOUT_SECONDS = 5.0

DUE = """
select o.id, o.key, o.tool, o.version, o.fence, o.arguments, o.can_look_up, o.look_ups, o.dispatched_at,
  o.horizon_at, r.terminal_at < clock_timestamp() - %s * interval '1 second'
    and coalesce(o.horizon_at, r.terminal_at) < clock_timestamp() as is_old,
  (select e.detail from runs_evidence e where e.operation_id = o.id and e.fence = o.fence and e.happened
   order by at limit 1) as proof
from runs_operation o join runs_run r on r.id = o.run_id
where o.state = 'unknown' and r.terminal_at is not null and o.next_look_up_at <= clock_timestamp()
order by o.next_look_up_at limit 50"""


def verify_once() -> int:
    """Look at each unknown operation that is due; returns how many were settled."""
    with connection.cursor() as cursor:
        cursor.execute(DUE, [limits().look_up_seconds])
        names = [c.name for c in cursor.description]
        due = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return sum(_verify(operation) for operation in due)


def _verify(operation: dict[str, Any]) -> bool:
    if operation["proof"]:
        return _settle(operation, True, "receipt", _as_json(operation["proof"]), sealed=False)
    if not operation["can_look_up"]:
        decide(operations.plan_look_up(operation_id=operation["id"], seconds=None))
        return False
    found = _ask_target(operation)
    if found.found is not None:
        detail = {"raw": found.raw, "found": found.found, "proof": "look-up"}
        if found.receipt is not None and found.receipt.external_id:
            detail["external_id"] = found.receipt.external_id
        if _settle(operation, found.found, "look_up", detail, sealed=found.sealed):
            return True
    wait = None if operation["is_old"] else min(8.0, 2.0 ** operation["look_ups"])
    decide(operations.plan_look_up(operation_id=operation["id"], seconds=wait))
    return False


def _ask_target(operation: dict[str, Any]) -> LookUp:
    spec = get_tool(operation["tool"])
    call = LookUpCall(
        operation_key=operation["key"],
        settings=tool_settings(),
        arguments=_as_json(operation["arguments"]),
        dispatched_at=operation["dispatched_at"],
    )
    try:
        return asyncio.run(_look_up(spec, call))
    except Exception:  # an adapter may raise anything; not being able to tell is an answer too
        logger.exception("operation.look_up_failed", extra={"operation": text_id("op", operation["id"])})
        return LookUp(found=None, receipt=None, raw=None)


async def _look_up(spec: ToolSpec, call: LookUpCall) -> LookUp:
    if not spec.can_look_up(call.settings) or spec.look_up is None:
        return LookUp(found=None)
    async with asyncio.timeout(LOOK_UP_TIMEOUT_SECONDS):
        return await spec.look_up(call)


def _as_json(value: Any) -> Any:
    """Django's own cursor gives jsonb as text."""
    return json.loads(value) if isinstance(value, str) else value


def _settle(operation: dict[str, Any], happened: bool, source: str, detail: dict[str, Any], *, sealed: bool) -> bool:
    verdict = decide(
        operations.settle(
            operation_id=operation["id"], version=operation["version"], happened=happened, source=source,
            detail=detail, sealed=sealed,
        )
    )  # fmt: skip
    settled = isinstance(verdict, operations.Settled)
    if settled:
        logger.info("operation.settled", extra={"operation": text_id("op", operation["id"]), "happened": happened})
    return settled
