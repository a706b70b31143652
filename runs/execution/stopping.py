"""The end of a scope: a stop that was asked for, a lost fence, or a worker that leaves.

stop    nothing new begins; models are closed, reads dropped, processes stopped; a write in flight may bring its
        receipt until the stop deadline; then the run is ended with a complete receipt
lost    everything stops at once; what is learnt from now on is evidence
drain   what can be repeated is dropped; the run goes to another worker, which looks the rest up
"""

import asyncio
import contextlib
import logging

import psycopg

from runs.agents.errors import ToolFailed
from runs.conf import limits
from runs.decisions.cancels import request_cancel
from runs.decisions.claims import release
from runs.decisions.core import Row
from runs.decisions.endings import NotEnded, end_cancel
from runs.execution import inherited
from runs.execution.child_step import children_may_have_ended
from runs.execution.claim import Claim
from runs.execution.outcomes import place_of
from runs.execution.outlet import OutletClosed
from runs.execution.receipts import STOPPED
from runs.execution.walk import look
from runs.failpoints import hit
from runs.states import CancelReason as RecordedReason
from tools.effects import Outcome, Receipt
from tools.errors import ToolError
from tools.registry import get_tool
from tools.scope import CancelReason, ScopeCancelled, boottime

logger = logging.getLogger(__name__)

# From the end of its last step to its own end an agent needs no more than this, unless it does something else.
UNHURRIED_SECONDS = 0.05
CUT_SECONDS = 2.0
RECORD_POLL_SECONDS = 0.05
DISPATCHED = "select * from runs_operation where run_id = %(run)s and state = 'dispatched'"

type Agent = asyncio.Task[object]


async def stop(claim: Claim, agent: Agent) -> None:
    """End a walk whose scope has ended, by its reason."""
    if claim.scope.reason is CancelReason.DEADLINE and claim.stop_by is None:
        await _record_deadline(claim)
    reason = claim.scope.reason
    if reason is CancelReason.LOST:
        await _stop_lost(claim, agent)
    elif reason is CancelReason.DRAIN and claim.stop_by is None:
        await _leave(claim, agent)
    else:
        await _stop_asked(claim, agent)


async def _record_deadline(claim: Claim) -> None:
    """Our clock says that the deadline has passed: put it on record, or learn that somebody else was first."""
    claim.held.give_back_permits()
    claim.branches.stop()
    while claim.stop_by is None and not claim.held.is_lost:
        await claim.decide(
            lambda: request_cancel(run_id=claim.origin.run_id, reason=RecordedReason.DEADLINE, overdue_only=True)
        )
        await look(claim)
        if claim.stop_by is None:
            await asyncio.sleep(RECORD_POLL_SECONDS)  # by the database's clock it is not over yet


async def _stop_asked(claim: Claim, agent: Agent) -> None:
    stop_by = claim.stop_by
    assert stop_by is not None  # set before the scope was cancelled
    await _let_agent_end(claim, agent, until=stop_by)
    await _settle_calls(claim, until=claim.stop_by or stop_by)
    if claim.held.is_lost:
        return
    with contextlib.suppress(OutletClosed):
        await claim.held.outlet.flush()
    await hit("before_settle")
    await _end(claim)


async def _end(claim: Claim) -> None:
    run_id, fence = claim.origin.run_id, claim.held.fence
    claim.ending.set()
    if claim.note is not None:
        await claim.note
    answer = await claim.decide(lambda: end_cancel(run_id=run_id, fence=fence))
    while isinstance(answer, NotEnded) and answer.reason == "children":
        await children_may_have_ended(claim)  # past the stop deadline a supervisor ends them, and then takes this one
        answer = await claim.decide(lambda: end_cancel(run_id=run_id, fence=fence))
    if not isinstance(answer, NotEnded):
        logger.info("run.ended", extra={"status": answer.status.value})
    elif answer.reason == "open":
        # A call that we could not record. Without a claim the supervisor judges it from the ledger.
        logger.error("run.left_open")
        await claim.decide(lambda: release(run_id=run_id, fence=fence, even_in_flight=True))


async def _stop_lost(claim: Claim, agent: Agent) -> None:
    logger.warning("run.fence_lost")
    claim.ending.set()
    claim.hands.processes.kill(claim.held.prefix)
    claim.branches.stop()
    agent.cancel()
    await asyncio.wait({agent}, timeout=limits().cleanup_seconds)
    _note_behaviour(agent)
    if claim.calls:  # bounded by the tools' own timeouts; their receipts become evidence
        await asyncio.wait(claim.calls)


async def _leave(claim: Claim, agent: Agent) -> None:
    """The drain time is over. A process is stopped and says so; a write keeps its place in the ledger."""
    await _let_agent_end(claim, agent, until=boottime() + limits().term_grace_seconds + CUT_SECONDS)
    await _settle_calls(claim, until=boottime())
    if claim.held.is_lost:
        return
    with contextlib.suppress(OutletClosed):
        await claim.held.outlet.flush()
    run_id, fence = claim.origin.run_id, claim.held.fence
    await claim.decide(lambda: release(run_id=run_id, fence=fence, even_in_flight=True))
    logger.info("run.released")


async def _let_agent_end(claim: Claim, agent: Agent, *, until: float) -> None:
    """Wait for the steps in flight, then for the agent; one that does something else meanwhile is cancelled."""
    idle = asyncio.ensure_future(claim.branches.idle.wait())
    try:
        timeout = max(0.0, until - boottime())
        await asyncio.wait({agent, idle}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        idle.cancel()
    if not agent.done():
        await asyncio.wait({agent}, timeout=UNHURRIED_SECONDS)
    if not agent.done():
        agent.cancel()
        left = max(UNHURRIED_SECONDS, min(limits().cleanup_seconds, until - boottime()))
        await asyncio.wait({agent}, timeout=left)
    _note_behaviour(agent)


def _note_behaviour(agent: Agent) -> None:
    """Say where an agent is that swallowed the cancel; its run is ended without it."""
    if not agent.done():
        logger.error("agent.ignores_cancel", extra={"at": place_of(agent)})
        return
    if agent.cancelled():
        return
    error = agent.exception()
    if isinstance(error, ToolFailed) and error.code in STOPPED:
        return  # of a process that was stopped with the run
    if not isinstance(error, ScopeCancelled):
        logger.warning("agent.swallowed_cancel", extra={"at": place_of(agent), "ended_with": repr(error)})


async def _settle_calls(claim: Claim, *, until: float) -> None:
    """Let calls in flight bring their receipts until then; what is cut is judged by whether it had begun."""
    if claim.calls:
        await asyncio.wait(claim.calls, timeout=max(0.0, until - boottime()))
    for call in list(claim.calls):
        call.cancel()
    if claim.calls:
        await asyncio.wait(claim.calls, timeout=CUT_SECONDS)


async def stop_inherited(claim: Claim) -> None:
    """End a run that was claimed while it was stopping: its agent never runs, its open operations are looked up."""
    await settle_inherited(claim)
    if not claim.held.is_lost:
        await hit("before_settle")
        await _end(claim)


async def settle_inherited(claim: Claim) -> None:
    """Find out what became of every operation that older claims have sent."""
    for row in await claim.fetch(DISPATCHED, run=claim.origin.run_id):
        claim.start_call(_settle_inherited(claim, row))
    if claim.calls:
        await asyncio.wait(claim.calls)


async def _settle_inherited(claim: Claim, row: Row) -> None:
    unknown = Receipt(Outcome.UNKNOWN, proof="no answer", error="The worker that sent it is gone.")
    try:
        spec = get_tool(row["tool"])
        receipt = await inherited.learn(claim, spec, row)
    except (ToolError, psycopg.OperationalError):
        logger.exception("operation.not_learnt", extra={"operation_key": row["key"]})
        return
    await inherited.record(claim, spec, row, receipt or unknown)
