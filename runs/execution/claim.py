"""What the steps of a run need of its claim: decisions that survive a broken connection, and who they act for.

A decision whose answer was lost may have happened (RULES H10): before it is asked again, `landed` reads whether it
has. As long as the lease is believed, we try; after that the claim counts as lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psycopg

from runs.database import Database
from runs.decisions.core import Decision, Row
from runs.errors import Busy
from runs.execution.branches import Branches, For, Parked
from runs.execution.held import Held
from runs.execution.history import History
from runs.frames import Origin
from runs.ids import text_id
from tools.models.protocol import ModelProvider
from tools.processes.host import ProcessHost
from tools.processes.terminals.owned import Terminals
from tools.scope import CancelReason, Scope, ScopeCancelled

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Hands:
    """What a worker lends to its runs. settings: what tools may know; provider: a model by name, None the default."""

    worker: str
    database: Database
    processes: ProcessHost
    workspaces: Path
    settings: dict[str, str]
    provider: Callable[[str | None], ModelProvider]
    draining: asyncio.Event  # take nothing new on, and let go at the next step boundary
    leaving: asyncio.Event  # the drain time is over: let go now
    terminals: Terminals | None = None  # where this machine has a host of them
    user: tuple[int, int] | None = None  # uid and gid of who commands run as; None: who we are


@dataclass(slots=True)
class Claim:
    """One claim, in the loop. stop_by: CLOCK_BOOTTIME by which a cancelled run must have ended."""

    run: Row
    held: Held
    hands: Hands
    branches: Branches
    history: History
    stop_by: float | None = None
    has_unknown: bool = False  # an operation is unknown: nothing more is dispatched (RULES H9)
    calls: set[asyncio.Task[Any]] = field(default_factory=set)
    ending: asyncio.Event = field(default_factory=asyncio.Event)  # its end is being recorded
    note: asyncio.Task[None] | None = None  # that the stop was seen, where it takes longer than a moment

    @property
    def scope(self) -> Scope:
        return self.held.scope

    @property
    def origin(self) -> Origin:
        return self.held.origin

    @property
    def run_text(self) -> str:
        """The run's id as the outside knows it."""
        return text_id("run", self.origin.run_id)

    @property
    def workspace(self) -> Path:
        return self.hands.workspaces / self.origin.run_id.hex

    def lost(self) -> NoReturn:
        """Note that the fence is not ours. Raises: ScopeCancelled(LOST)."""
        self.held.lose()
        raise ScopeCancelled(CancelReason.LOST)

    def release(self, process_key: str) -> None:
        """Let the wards of a call forget their proof: what it came to is stored."""
        self.hands.processes.release(process_key)
        if self.hands.terminals is not None:
            self.hands.terminals.release(self.run_text)

    async def decide[T](
        self, make: Callable[[], Decision[T]], *, landed: Callable[[], Awaitable[T | None]] | None = None
    ) -> T:
        """Run a decision until its answer is known.

        Args: landed: returns what the decision would have returned if it has happened already, else None; without
        it the decision is simply repeated, so it must be one that does not mind.
        Raises: ScopeCancelled(LOST) when the lease ends first.
        """
        is_unclear, pause = False, _FIRST_PAUSE_SECONDS
        while True:
            try:
                if is_unclear and landed is not None and (answer := await landed()) is not None:
                    return answer
                return await self.hands.database.decide(make())
            except Busy:
                logger.warning("decision.busy", extra={"run_id": self.run_text})
            except psycopg.OperationalError as error:
                logger.warning("decision.unclear", extra={"run_id": self.run_text, "error": str(error).strip()[:200]})
                is_unclear = True
            if self.held.is_lost:
                self.lost()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def fetch(self, sql: str, **params: Any) -> list[Row]:
        """Read rows. Raises: psycopg.OperationalError when the database is away."""
        return await self.hands.database.fetch(sql, params)

    def start_call(self, work: Coroutine[Any, Any, Any], *, lives_on: bool = False) -> asyncio.Task[Any]:
        """Run a call with an effect outside in a task of its own: cancelling the agent must not cut its receipt."""
        task = asyncio.get_running_loop().create_task(self._in_flight(work, lives_on))
        self.calls.add(task)
        task.add_done_callback(self._call_ended)
        return task

    async def _in_flight(self, work: Coroutine[Any, Any, Any], lives_on: bool) -> Any:
        with self.branches.step_in_flight(lives_on=lives_on):
            return await work

    def _call_ended(self, task: asyncio.Task[Any]) -> None:
        self.calls.discard(task)
        if task.cancelled():
            return
        error = task.exception()  # the agent, who would see it, may be gone
        if isinstance(error, Exception):
            logger.error("call.failed", exc_info=error, extra={"run_id": self.run_text})

    async def pass_boundary(self) -> None:
        """Come to where a new step may begin. Raises: ScopeCancelled after a stop; Unwind when nothing may begin."""
        self.scope.raise_if_cancelled()
        if self.has_unknown:
            await self.branches.park(Parked(For.VERDICT))
        if self.hands.draining.is_set():
            await self.branches.park(Parked(For.DRAIN))
