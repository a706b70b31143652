"""The way in: each batch of a pilot's input is asked for before the terminal gets it (DESIGN section 1).

The answer is good for PERMIT_SECONDS, counted from before the question by a clock that goes on while this process is
frozen, and the terminal's ward throws away what comes later: nothing goes in on an answer from before a stop.
"""

import asyncio
import logging
from uuid import UUID

from runs import failpoints
from runs.database import Database
from streaming.hub import DATABASE_ERRORS
from streaming.shells.door import Door
from streaming.shells.reads import MayType, may_type
from streaming.shells.typing_on import Typing
from tools.processes.terminals.link import PERMIT_SECONDS, Terminal
from tools.scope import boottime

logger = logging.getLogger(__name__)
TELL_SECONDS = 0.01  # after input has gone in: its echo goes out first, and what follows is told with it
AWAY_SECONDS = 0.25  # until the next try, where the database is away


class Gate:
    """What one client types. `terminal` is the connection that takes it, None where it is not in control."""

    def __init__(self, door: Door, db: Database, run_id: UUID, user_id: int) -> None:
        self._door, self._db, self._run_id, self._user_id = door, db, run_id, user_id
        self.terminal: Terminal | None = None
        self.typing = Typing()
        self._has_taken = asyncio.Event()

    def open(self, terminal: Terminal, taken: int) -> None:
        """Pass on to this terminal, whose input stands there."""
        self.typing.begin(taken)
        self.terminal = terminal

    def leave(self) -> None:
        """Pass nothing on, until it is opened again."""
        self.terminal = None
        self.typing.begin(self.typing.taken)

    async def add(self, offset: int, data: bytes) -> None:
        """Take what the client sends; of a viewer, a displaced pilot, or before input stands anywhere, nothing."""
        if self.terminal is None:
            return
        if not self.typing.add(offset, data):
            await self._door.say("input", problem="gap", taken=self.typing.end)
        elif self.typing.is_shut:
            await self._say_shut()
        elif self.typing.is_full:
            self._door.refuse()

    def take(self, offset: int) -> None:
        """The terminal has taken what came before."""
        if self.terminal is not None:
            self.typing.take(offset)
            self._has_taken.set()

    async def tell(self) -> None:
        """Tell the client what the terminal has taken, until cancelled."""
        while True:
            await self._has_taken.wait()
            await asyncio.sleep(TELL_SECONDS)
            self._has_taken.clear()
            if self.terminal is not None:
                await self._door.say("taken", offset=self.typing.taken)

    async def shut(self) -> None:
        """Pass nothing on any more: a stop is recorded, or the run has ended."""
        if not self.typing.is_shut:
            self.typing.shut()
            await self._say_shut()

    async def pass_on(self) -> None:
        """Ask for each batch and pass it on, until cancelled. What comes meanwhile is joined to the next one."""
        while True:
            await self.typing.wake.wait()
            terminal, batch = self.terminal, self.typing.next()
            if terminal is None or batch is None:
                self.typing.wake.clear()
                continue
            void_at = boottime() + PERMIT_SECONDS
            try:
                answer = await may_type(self._db, self._run_id, self._user_id)
            except DATABASE_ERRORS as error:
                logger.warning("shell.input_waits", extra={"error": repr(error)})
                await asyncio.sleep(AWAY_SECONDS)
                continue
            await failpoints.hit("after_input_check")
            if answer is MayType.SHUT:
                await self.shut()
            elif answer is MayType.NOT_THEIRS:
                self.leave()
            elif terminal is self.terminal:
                offset, data = batch
                terminal.type(offset, data, void_at=void_at)
                self.typing.give(offset + len(data))

    async def _say_shut(self) -> None:
        await self._door.say("input", problem="shut", taken=self.typing.taken)
