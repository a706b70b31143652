"""Advance one run: claim it, walk its agent, and end, put away or hand over the claim. Knows nothing of RQ."""

import logging
from uuid import UUID

import psycopg
import structlog

from runs.agents.registry import AgentSpec, get_agent
from runs.conf import limits
from runs.decisions.claims import Claimed, Lost, NotClaimable, claim
from runs.decisions.core import Row
from runs.decisions.endings import NotEnded, finish_run
from runs.errors import UnknownAgent
from runs.execution.branches import Branches
from runs.execution.claim import Claim
from runs.execution.held import Held
from runs.execution.history import History, load_history
from runs.execution.lease import end_of_lease
from runs.execution.poison import end_poisoned
from runs.execution.stopping import stop, stop_inherited
from runs.execution.walk import STOP_MARGIN_SECONDS, Next, Walk
from runs.execution.worker_context import WorkerContext
from runs.failpoints import hit
from runs.frames import Origin
from runs.states import DEATHS_TO_END, Status
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime

logger = logging.getLogger(__name__)

WAKES = "select wakes from runs_run where id = %(run)s and fence = %(fence)s"


async def advance(run_id: UUID, worker: WorkerContext) -> bool:
    """Carry a run as far as it goes. Returns False when there was nothing to claim.

    Races: any number of workers may call this for one run; the claim decides. Raises: psycopg.OperationalError when
    the database is away before the claim is known; the supervisor asks again then.
    """
    began = boottime()
    answer = await _claim_run(run_id, worker)
    if isinstance(answer, NotClaimable):
        logger.debug("run.not_claimable", extra={"run_id": run_id.hex, "status": answer.status})
        return False
    held = _hold(answer, worker, began)
    with structlog.contextvars.bound_contextvars(
        run_id=held.prefix, attempt=held.origin.attempt, fence=held.fence, worker=worker.hands.worker
    ):
        logger.info("run.claimed", extra={"status": answer.run["status"], "agent": answer.run["agent"]})
        worker.keeper.watch(held)
        try:
            await hit("lease_held")
            await _carry(answer.run, held, worker)
        except ScopeCancelled:
            logger.warning("run.fence_lost")  # while ending it: nothing is left to be done here
        finally:
            held.is_over = True
            held.outlet.close()
            worker.keeper.forget(held)
    return True


async def _claim_run(run_id: UUID, worker: WorkerContext) -> Claimed | NotClaimable:
    """Claim; a second time where the connection was one that a restart of the database had broken meanwhile.

    A first claim that did land is found as a live lease then, and ends by itself: nobody renews it.
    """
    for is_last in (False, True):
        try:
            return await worker.hands.database.decide(
                claim(
                    run_id=run_id,
                    worker=worker.hands.worker,
                    lease_seconds=limits().lease_seconds,
                    is_alone=worker.is_alone,
                )
            )
        except psycopg.OperationalError:
            if is_last:
                raise
    raise AssertionError("the last try returns or raises")


def _hold(claimed: Claimed, worker: WorkerContext, began: float) -> Held:
    run = claimed.run
    deadline = None if run["deadline_at"] is None else boottime() + run["deadline_in_seconds"]
    held = Held(
        origin=Origin(run["id"], run["attempt"], run["stream_id"]),
        fence=claimed.fence,
        scope=Scope(deadline=deadline),
        believed_until=end_of_lease(began),
    )
    held.outlet = worker.writer.outlet(
        run_id=run["id"], stream_id=run["stream_id"], fence=claimed.fence, on_lost=held.lose
    )
    return held


def _claim(run: Row, held: Held, worker: WorkerContext, history: History) -> Claim:
    branches = Branches(held.scope, max_steps=limits().max_steps)
    return Claim(run=run, held=held, hands=worker.hands, branches=branches, history=history)


async def _carry(run: Row, held: Held, worker: WorkerContext) -> None:
    if run["status"] == Status.CANCELLING:
        stopping = _claim(run, held, worker, History({}))
        stopping.stop_by = boottime() + max(0.0, run["stop_in_seconds"] - STOP_MARGIN_SECONDS)
        held.scope.cancel(CancelReason(run["cancel_reason"]))
        await stop_inherited(stopping)
        return
    if run["deaths"] >= DEATHS_TO_END:
        await end_poisoned(_claim(run, held, worker, History({})))
        return
    try:
        spec = get_agent(run["agent"])
    except UnknownAgent as error:
        await _fail(_claim(run, held, worker, History({})), error)
        return
    # Before the first claim nobody has walked, so there is nothing to load, and the claim's row has the count.
    wakes, history = (run["wakes"], History({})) if held.fence == 1 else await _look(held, worker)
    while await _walk(_claim(run, held, worker, history), spec, wakes) is Next.AGAIN:
        logger.info("run.woken_at_once")
        wakes, history = await _look(held, worker)


async def _look(held: Held, worker: WorkerContext) -> tuple[int, History]:
    """Read how often the run was woken, and then what it has done: in this order (RULES H11)."""
    rows = await worker.hands.database.fetch(WAKES, {"run": held.run_id, "fence": held.fence})
    wakes = rows[0]["wakes"] if rows else -1  # lost: the first decision says so
    return wakes, await load_history(
        worker.hands.database, held.run_id, held.origin.stream_id, attempt=held.origin.attempt
    )


async def _walk(walking: Claim, spec: AgentSpec, wakes: int) -> Next:
    walk = Walk(walking, spec, wakes=wakes)
    following = await walk.run()
    if following is Next.STOP:
        await stop(walking, walk.agent)
        return Next.OVER
    return following


async def _fail(failing: Claim, error: UnknownAgent) -> None:
    """This worker does not know the agent: another one may, but a run that waits for a deploy helps nobody."""
    answer = await failing.decide(
        lambda: finish_run(
            run_id=failing.origin.run_id,
            fence=failing.held.fence,
            status=Status.FAILED,
            error_code=error.code,
            error_message=error.message,
        )
    )
    if isinstance(answer, NotEnded | Lost):
        logger.warning("run.not_failed", extra={"reason": getattr(answer, "reason", "lost")})
