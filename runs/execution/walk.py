"""One walk through an agent under one claim: start it, watch the row, and see how it comes out."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from enum import StrEnum
from typing import Any

import psycopg

from runs.agents.registry import AgentSpec
from runs.conf import limits
from runs.decisions.claims import Lost, release, see_cancel
from runs.decisions.core import Row
from runs.decisions.endings import Ended, NotEnded, finish_run, park
from runs.decisions.waiting import NotWaiting, wait
from runs.execution.branches import For, Parked
from runs.execution.child_step import children_may_have_ended, leave_no_child, leave_no_shell
from runs.execution.claim import Claim
from runs.execution.context import StepContext
from runs.execution.outcomes import failure_of, name_of, place_of
from runs.execution.outlet import OutletClosed
from runs.execution.waiting_steps import resume_answered, watch_questions
from runs.failpoints import hit
from runs.states import Status
from tools.scope import CancelReason, ScopeCancelled, boottime

logger = logging.getLogger(__name__)

ASKED_TO_STOP = """
select cancel_reason as reason, extract(epoch from stop_deadline_at - clock_timestamp())::float8 as seconds
from runs_run where id = %(run)s and fence = %(fence)s and status in ('cancel_requested', 'cancelling')"""
# We want to be done before a supervisor takes the run away at its stop deadline.
STOP_MARGIN_SECONDS = 1.0
MOMENT_SECONDS = 0.02
LIVES_ON_SECONDS = 0.1  # between looks, in a drain, whether only what outlives its claim is still in flight


class Next(StrEnum):
    """What follows a walk."""

    OVER = "over"  # the claim is given back or ended
    AGAIN = "again"  # something arrived between the look and the wait: walk once more
    STOP = "stop"  # the scope has ended: see runs.execution.stopping


class Walk:
    """An agent under way."""

    def __init__(self, claim: Claim, spec: AgentSpec, *, wakes: int) -> None:
        self.claim = claim
        self._spec = spec
        self._wakes = wakes
        self.agent = asyncio.get_running_loop().create_task(self._walk(), name=name_of(spec.fn))

    async def run(self) -> Next:
        """Walk until the agent has ended or the scope has."""
        async with watching(self.claim):
            ended = asyncio.ensure_future(self.claim.scope.wait_ended())
            apart = asyncio.ensure_future(self.claim.branches.came_apart.wait())
            try:
                await asyncio.wait({self.agent, ended, apart}, return_when=asyncio.FIRST_COMPLETED)
                if self.claim.scope.reason is None and not self.agent.done():
                    await self._let_come_apart(ended)
            finally:
                ended.cancel()
                apart.cancel()
            if not self.agent.done() or self.claim.scope.reason is not None:
                return Next.STOP
            return await self._come_out()

    async def _let_come_apart(self, ended: asyncio.Future[Any]) -> None:
        """Every branch has got Unwind; an agent that swallowed it and goes on is cancelled."""
        seconds = limits().cleanup_seconds
        await asyncio.wait({self.agent, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self.agent.done() and not ended.done():
            logger.warning("agent.swallowed_unwind", extra={"at": place_of(self.agent)})
            self.agent.cancel()
            await asyncio.wait({self.agent, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self.agent.done() and not ended.done():
            logger.error("agent.ignores_cancel", extra={"at": place_of(self.agent)})
            self.claim.held.lose()  # it still runs: the claim is left to expire, so that nothing of it is written

    async def _walk(self) -> Any:
        self.claim.branches.begin()
        value = await self._spec.start(StepContext(self.claim), self.claim.run["input"])
        return self._spec.dump_result(value)

    async def _come_out(self) -> Next:
        claim = self.claim
        unwound = claim.branches.unwound
        if self.agent.cancelled():
            error: BaseException | None = RuntimeError("The agent cancelled itself.")
        else:
            error = self.agent.exception()
        if unwound is None and claim.calls:  # the agent has left calls behind: their receipts come first
            await asyncio.wait(claim.calls)
        if isinstance(error, ScopeCancelled):
            return Next.STOP
        if unwound is not None:
            if error is None:
                logger.warning("agent.swallowed_unwind", extra={"at": place_of(self.agent)})
            return await self._put_away(unwound)
        try:
            await claim.held.outlet.flush()
        except OutletClosed:
            return Next.STOP
        await hit("before_end")
        if claim.has_unknown:
            result = self.agent.result() if error is None else None
            return await self._end(lambda: park(**self._ids(), has_result=error is None, result=result))
        if error is None:
            result = self.agent.result()
            return await self._end(lambda: finish_run(**self._ids(), status=Status.COMPLETED, result=result))
        code, message = failure_of(error)
        return await self._end(
            lambda: finish_run(**self._ids(), status=Status.FAILED, error_code=code, error_message=message)
        )

    def _ids(self) -> dict[str, Any]:
        return {"run_id": self.claim.origin.run_id, "fence": self.claim.held.fence}

    async def _put_away(self, unwound: list[Parked]) -> Next:
        """Nothing can be done now: verify, move to another worker, or wait."""
        kinds = {parked.what for parked in unwound}
        if For.VERDICT in kinds:
            answer: Any = await self.claim.decide(lambda: park(**self._ids()))
            if not isinstance(answer, NotEnded) or answer.reason != "children":
                return await self._ended(answer)
            await leave_no_shell(self.claim)
        elif For.DRAIN in kinds:
            # Nothing of ours is in flight: what is open still was begun by older claims, and is the next one's as well.
            await self.claim.decide(lambda: release(**self._ids(), even_in_flight=True))
            return Next.OVER
        timers = [parked.wake_at for parked in unwound if parked.wake_at is not None]
        answer = await self.claim.decide(
            lambda: wait(
                **self._ids(),
                wakes=self._wakes,
                # The timer of a run that also asks must still fire; answers are taken in any waiting run.
                waiting_for="timer" if timers else "input" if For.INPUT in kinds else "child",
                wake_at=min(timers, default=None),
            )
        )
        if not isinstance(answer, NotWaiting):
            return Next.OVER
        if answer.reason == "woken":
            return Next.AGAIN
        return await self._not_done(answer.reason)

    async def _end(self, make: Callable[[], Any]) -> Next:
        answer: Ended | NotEnded = await self.claim.decide(make)
        if isinstance(answer, NotEnded) and answer.reason == "children":
            logger.warning("agent.left_children", extra={"agent": self._spec.name})
            await leave_no_child(self.claim)
        while isinstance(answer, NotEnded) and answer.reason == "children":
            await children_may_have_ended(self.claim)
            answer = await self.claim.decide(make)
        return await self._ended(answer)

    async def _ended(self, answer: Ended | NotEnded) -> Next:
        if isinstance(answer, NotEnded):
            return await self._not_done(answer.reason)
        logger.info("run.ended", extra={"status": answer.status.value})
        return Next.OVER

    async def _not_done(self, reason: str) -> Next:
        if reason == "ended":
            return Next.OVER  # our own commit, whose answer was lost
        if reason == "lost":
            self.claim.held.lose()
            return Next.STOP
        if reason == "cancel":
            await look(self.claim)
            return Next.STOP
        # Something is counted as in flight that no step of this walk holds: let the next claim sort it out.
        logger.error("run.left_open", extra={"has_unknown": self.claim.has_unknown})
        await self.claim.decide(lambda: release(**self._ids(), even_in_flight=True))
        return Next.OVER


@contextlib.asynccontextmanager
async def watching(claim: Claim) -> AsyncIterator[None]:
    """Meanwhile look at the row when somebody says so, at open questions, and at the end of a drain."""
    work = (_watch_row(claim), _watch_leaving(claim), _quietly(watch_questions(claim)))
    tasks = [asyncio.get_running_loop().create_task(_logged(part)) for part in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except ScopeCancelled:
        pass  # the claim was lost while we looked: the walk sees that by its scope
    except Exception:  # the edge of a side task: without a line nobody would know why a stop is slow
        logger.exception("watch.failed")


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        await work


async def _watch_row(claim: Claim) -> None:
    while True:
        await claim.held.should_look.wait()
        claim.held.should_look.clear()
        if claim.held.is_lost:
            claim.branches.stop()
            return
        await look(claim)
        with contextlib.suppress(psycopg.OperationalError):
            await resume_answered(claim)


async def _watch_leaving(claim: Claim) -> None:
    await claim.hands.draining.wait()
    while not (claim.branches.lives_on or claim.hands.leaving.is_set()):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIVES_ON_SECONDS):
                await claim.hands.leaving.wait()
    claim.scope.cancel(CancelReason.DRAIN)
    claim.branches.stop()


async def look(claim: Claim) -> None:
    """See whether a stop was asked for, and begin it: from here on nothing new begins in this process either.

    The request is committed, so nothing waits for our own note that we saw it; a stop that is over in a moment notes it
    with its end.
    """
    rows: list[Row] = []
    with contextlib.suppress(psycopg.OperationalError):  # then the note, which is tried until it is known, decides
        rows = await claim.fetch(ASKED_TO_STOP, run=claim.origin.run_id, fence=claim.held.fence)
    if not rows:
        await _note_seen(claim)
    elif claim.stop_by is None:
        _begin_stop(claim, CancelReason(rows[0]["reason"]), rows[0]["seconds"])
        claim.note = asyncio.get_running_loop().create_task(_note_seen_unless_over(claim), name="note of a stop")


def _begin_stop(claim: Claim, reason: CancelReason, seconds: float) -> None:
    claim.stop_by = boottime() + max(0.0, seconds - STOP_MARGIN_SECONDS)
    claim.scope.cancel(reason)
    claim.held.give_back_permits()
    claim.branches.stop()
    logger.info("run.cancelling", extra={"reason": reason.value})


async def _note_seen_unless_over(claim: Claim) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(MOMENT_SECONDS):
            await claim.ending.wait()
            return
    with contextlib.suppress(ScopeCancelled):  # the claim is lost, and knows it
        await _note_seen(claim)


async def _note_seen(claim: Claim) -> None:
    """Record that this claim carries the stop out, or learn that the claim is lost."""
    seen = await claim.decide(lambda: see_cancel(run_id=claim.origin.run_id, fence=claim.held.fence))
    if isinstance(seen, Lost):
        claim.held.lose()
        claim.branches.stop()
    elif seen is not None and claim.stop_by is None:
        _begin_stop(claim, CancelReason(seen.reason), limits().stop_deadline_seconds)
