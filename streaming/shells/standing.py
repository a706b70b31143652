"""Where a shell's run stands, as its row says, for one socket: each change is told once."""

import asyncio
import contextlib
import logging
from typing import Any
from uuid import UUID

from runs.decisions.core import iso
from streaming.hub import DATABASE_ERRORS, Hub
from streaming.shells import reads
from streaming.shells.door import Door
from streaming.shells.gate import Gate
from streaming.topics import Stream

logger = logging.getLogger(__name__)


class Standing:
    """The run of one socket's shell. `state` is None until it could be read."""

    def __init__(self, door: Door, hub: Hub, stream: Stream, gate: Gate, shell_id: UUID) -> None:
        self._door, self._hub, self._stream, self._gate, self._shell_id = door, hub, stream, gate, shell_id
        self.state: reads.State | None = None
        self._changed = asyncio.Event()

    @property
    def seen(self) -> tuple[Any, ...]:
        """What is another value after each change of the run."""
        return (self._stream.version, self._stream.ring.head, self._stream.ended_at)

    @property
    def is_over(self) -> bool:
        """The run is known to have ended."""
        return self.state is not None and self.state.is_over

    async def look(self) -> None:
        """Read it, and tell what is new; nothing goes in any more once a stop is recorded."""
        try:
            state = await reads.read_state(self._hub.db, self._shell_id)
        except DATABASE_ERRORS as error:
            logger.warning("shell.database_away", extra={"error": repr(error)})
            return
        if state is None:
            return  # deleted: the hub closes the stream's readers
        had, self.state = self.state, state
        if had is None or had.told != state.told:
            await self._door.say("run", **state.told, at=iso(state.at))
            if not state.may_type:
                await self._gate.shut()

    def changed(self) -> None:
        """Wake who waits for a change."""
        self._changed.set()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait for the next change, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
