"""Where in the agent a step is (its call path), and whether any branch of the agent can still do something.

    path            "1", "2", then a gather at "3": its first branch makes "3.1.1", "3.1.2", its second "3.2.1"
    running         branches that may make a step; a gather turns its caller into its branches
    in flight       steps that have begun and not ended
    parked          branches that wait for a person, a timer, another worker, or the truth about an operation

When nothing is running and nothing in flight, all parked branches get Unwind: the agent is taken apart.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from runs.agents.errors import AgentStepError
from runs.execution.signals import StepLimit, Unwind
from tools.scope import Scope, ScopeCancelled


class For(StrEnum):
    """What a parked branch waits for."""

    INPUT = "input"
    TIMER = "timer"
    CHILD = "child"
    DRAIN = "drain"  # this worker leaves
    VERDICT = "verdict"  # an operation of the run is unknown


@dataclass(frozen=True, slots=True)
class Parked:
    """One branch that waits; wake_at for a timer, question_id for input, child_step_id for a child."""

    what: For
    wake_at: datetime | None = None
    question_id: UUID | None = None
    child_step_id: UUID | None = None


@dataclass(slots=True)
class _Place:
    prefix: str
    count: int = 0


_place: ContextVar[_Place] = ContextVar("place in the agent")


class Branches:
    """The branches of one walk through an agent."""

    def __init__(self, scope: Scope, *, max_steps: int) -> None:
        self.unwound: list[Parked] | None = None  # what every branch waited for when the agent was taken apart
        self.came_apart = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._scope = scope
        self._max_steps = max_steps
        self._steps = 0
        self._running = 1
        self._in_flight = self._living_on = 0
        self._parked: dict[asyncio.Future[Any], Parked] = {}

    def begin(self) -> None:
        """Put the caller's task at the root of the agent."""
        _place.set(_Place(""))

    def next_path(self) -> str:
        """Return the path of the next step. Raises: StepLimit."""
        self._steps += 1
        if self._steps > self._max_steps:
            raise StepLimit(self._max_steps)
        place = _place.get()
        place.count += 1
        return f"{place.prefix}{place.count}"

    @property
    def lives_on(self) -> bool:
        """Say whether all that is in flight lives on without this claim, so that a drain need not wait for it."""
        return 0 < self._in_flight == self._living_on

    @contextlib.contextmanager
    def step_in_flight(self, *, lives_on: bool = False) -> Iterator[None]:
        """Count a step while it lasts. lives_on: it does so without this claim, and the next one adopts it."""
        self._in_flight += 1
        self._living_on += lives_on
        self.idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            self._living_on -= lives_on
            if self._in_flight == 0:
                self.idle.set()
            self._unwind_if_stuck()

    async def park(self, parked: Parked) -> Any:
        """Wait until `resume` brings what is waited for. Raises: Unwind, ScopeCancelled."""
        if self._scope.reason is not None:
            raise ScopeCancelled(self._scope.reason)
        if self.unwound is not None:
            raise Unwind
        arrival: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parked[arrival] = parked
        self._running -= 1
        self._unwind_if_stuck()
        try:
            return await arrival
        finally:
            self._running += 1
            self._parked.pop(arrival, None)

    def parked_inputs(self) -> list[UUID]:
        """Return the questions that branches wait for."""
        return [p.question_id for p in self._parked.values() if p.question_id is not None]

    def parked_children(self) -> list[UUID]:
        """Return the steps of the children that branches wait for."""
        return [p.child_step_id for p in self._parked.values() if p.child_step_id is not None]

    def resume(self, awaited: UUID, value: Any) -> None:
        """Let the branch that waits for this question, or for the child of this step, go on beside the others."""
        for arrival, parked in self._parked.items():
            if awaited in (parked.question_id, parked.child_step_id) and not arrival.done():
                arrival.set_result(value)

    def ring(self, timer: Parked) -> None:
        """Let the branch that waits for this timer go on beside the others."""
        for arrival, parked in self._parked.items():
            if parked is timer and not arrival.done():
                arrival.set_result(None)

    def stop(self) -> None:
        """Tell every parked branch that the scope has ended."""
        assert self._scope.reason is not None  # the caller has just cancelled it
        for arrival in self._parked:
            if not arrival.done():
                arrival.set_exception(ScopeCancelled(self._scope.reason))

    def _unwind_if_stuck(self) -> None:
        if self._running > 0 or self._in_flight > 0 or self.unwound is not None or self._scope.reason is not None:
            return
        if any(arrival.done() for arrival in self._parked):
            return  # a branch is about to go on
        self.unwound = list(self._parked.values())
        self.came_apart.set()
        for arrival in self._parked:
            arrival.set_exception(Unwind())

    async def gather(
        self, branches: Sequence[Coroutine[Any, Any, Any]], *, limit: int | None, return_errors: bool
    ) -> list[Any]:
        """Run branches side by side; see RunContext.gather."""
        if not branches:
            return []
        path = self.next_path()
        outcomes: list[Any] = [None] * len(branches)
        waiting = iter(enumerate(branches))
        lanes = min(len(branches), limit or len(branches))
        left = lanes
        self._running += lanes - 1

        async def lane() -> None:
            nonlocal left
            try:
                for index, branch in waiting:
                    _place.set(_Place(f"{path}.{index + 1}."))
                    try:
                        outcomes[index] = await branch
                    except Exception as error:  # kept: every branch is settled before one is raised
                        outcomes[index] = error
            finally:
                left -= 1
                if left:  # the last one hands its turn back to the caller
                    self._running -= 1
                    self._unwind_if_stuck()

        tasks = [asyncio.get_running_loop().create_task(lane()) for _ in range(lanes)]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        finally:
            for _, branch in waiting:
                branch.close()  # never begun
        _raise_signal(tasks)
        return _results(outcomes, return_errors)


def _raise_signal(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Raise what is no outcome of a branch: a broken run before a cancel, a cancel before an unwinding."""
    found = [None if task.cancelled() else task.exception() for task in tasks]
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError
    signals = [error for error in found if error is not None]
    if signals:
        raise min(signals, key=_weight)


def _weight(signal: BaseException) -> int:
    return 2 if isinstance(signal, Unwind) else 1 if isinstance(signal, ScopeCancelled) else 0


def _results(outcomes: list[Any], return_errors: bool) -> list[Any]:
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not (return_errors and isinstance(outcome, AgentStepError)):
            raise outcome
    return outcomes
