"""Finding out what became of unknown operations: stored evidence first, then the target, then the operators.

Only runs that have ended are looked after here; a living claim asks for itself. A look-up reads; it is not work
of the run. A positive answer counts at once, a negative one only when nothing can land any more (RULES H6).
"""

import asyncio
import json
import logging
from typing import Any

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions import operations
from runs.ids import text_id
from runs.supervisor.behind import IN_TURN, Behind, act_on_each
from runs.tool_settings import tool_settings
from tools.call import LookUpCall
from tools.effects import LookUp
from tools.registry import get_tool
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)
LOOK_UP_TIMEOUT_SECONDS = 5.0
WAITS = (1.0, 2.0, 4.0, 8.0)  # seconds between look-ups; the last one again and again
BATCH = 50

DUE = """
select o.id, o.next_look_up_at as due_at, o.key, o.tool, o.version, o.fence, o.arguments, o.can_look_up, o.look_ups,
  o.dispatched_at, o.horizon_at, r.terminal_at < clock_timestamp() - %(seconds)s * interval '1 second'
    and coalesce(o.horizon_at, r.terminal_at) < clock_timestamp() as is_old,
  (select e.detail from runs_evidence e where e.operation_id = o.id and e.fence = o.fence and e.happened
   order by at limit 1) as proof
from runs_operation o join runs_run r on r.id = o.run_id
where o.state = 'unknown' and r.terminal_at is not null and o.next_look_up_at <= clock_timestamp()"""


def verify_once(behind: Behind | None = None) -> int:
    """Look at each unknown operation that is due; returns how many were settled.

    Args: behind: what the looks before failed at; that comes last.
    """
    memory = Behind() if behind is None else behind
    due = fetch(
        f"select o.* from ({DUE}) o {IN_TURN} limit {BATCH}",
        {"seconds": limits().look_up_seconds, "behind": memory.of("operation")},
    )
    return act_on_each("operation", due, _verify, memory)


def _verify(operation: dict[str, Any]) -> bool:
    if operation["proof"]:
        return _settle(operation, True, "receipt", _as_json(operation["proof"]), sealed=False)
    if not operation["can_look_up"]:
        decide(operations.plan_look_up(operation_id=operation["id"], seconds=None))
        return False
    found = _ask_target(operation)
    if found.found is not None:
        detail = _detail_of(found)
        if found.receipt is not None and found.receipt.external_id:
            detail["external_id"] = found.receipt.external_id
        if found.receipt is not None:  # a new attempt that inherits the operation goes on with it
            detail["value"] = found.receipt.value
        if _settle(operation, found.found, "look_up", detail, sealed=found.sealed):
            return True
    gives_up = operation["is_old"] and found.found is not True  # a "yes" that somebody's decision overtook: look again
    wait = None if gives_up else WAITS[min(operation["look_ups"], len(WAITS) - 1)]
    if gives_up:  # the last one of ours, or one that an operator asked for: what it found is for people to read
        _keep_answer(operation, found)
    decide(operations.plan_look_up(operation_id=operation["id"], seconds=wait))
    return False


def _keep_answer(operation: dict[str, Any], found: LookUp) -> None:
    """Store an answer that decides nothing: not there (yet), or no telling."""
    decide(
        operations.record_evidence(
            operation_id=operation["id"], fence=operation["fence"], kind="look_up", happened=found.found,
            detail=_detail_of(found),
        )
    )  # fmt: skip


def _detail_of(found: LookUp) -> dict[str, Any]:
    return {"raw": found.raw, "found": found.found, "proof": "look-up"}


def _ask_target(operation: dict[str, Any]) -> LookUp:
    call = LookUpCall(
        operation_key=operation["key"],
        settings=tool_settings(),
        arguments=_as_json(operation["arguments"]),
        dispatched_at=operation["dispatched_at"],
    )
    try:
        return asyncio.run(_look_up(get_tool(operation["tool"]), call))
    except Exception:  # an adapter may raise anything, or be gone; not being able to tell is an answer too
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
