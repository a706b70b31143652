"""A control connection: it counts for the run's policy while its client gives signs of life (DESIGN section 8).

Never renewed by a timer of ours: a page that was closed, or a laptop that sleeps, must be missed.
"""

import asyncio
import logging
from uuid import UUID

from runs.database import Database
from runs.decisions import controls
from runs.decisions.controls import Attached
from runs.errors import Busy
from streaming.hub import DATABASE_ERRORS
from streaming.reader import Reader

logger = logging.getLogger(__name__)
RENEW_SECONDS = 3.0  # signs of life that come sooner are not written; the lease is 10 s
BEAT_SECONDS = 4.0  # heartbeats of a control connection: a hidden tab's timers sleep, its answers to messages do not


class Presence:
    """The control connection of one reader."""

    def __init__(self, db: Database, run_id: UUID, user_id: int) -> None:
        self.db, self.run_id, self.user_id = db, run_id, user_id
        self._sign = asyncio.Event()
        self.attached: Attached | None = None

    async def attach(self) -> Attached | None:
        """Begin to count. None: the run has ended or is stopping, nothing depends on anybody any more."""
        self.attached = await self.db.decide(controls.attach(run_id=self.run_id, user_id=self.user_id))
        return self.attached

    async def closed(self) -> None:
        """The connection was closed meanwhile: attach anew."""
        await self.attach()

    def sign_of_life(self) -> None:
        """The client has said something."""
        self._sign.set()

    async def keep(self) -> None:
        """Write signs of life down until cancelled; what was closed meanwhile is attached anew (RULES H17)."""
        while True:
            await self._sign.wait()
            self._sign.clear()
            try:
                if self.attached is not None and not await self.db.decide(
                    controls.renew_presence(connection_id=self.attached.connection_id)
                ):
                    await self.closed()
            except (*DATABASE_ERRORS, Busy) as error:
                logger.warning("presence.not_renewed", extra={"run_id": self.run_id.hex, "error": repr(error)})
            await asyncio.sleep(RENEW_SECONDS)

    async def beat(self, reader: Reader) -> None:
        """Send heartbeats that a client can answer within the lease, until cancelled."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            reader.beat()

    async def detach(self) -> None:
        """Count no more. If this cannot be written, the lease runs out instead."""
        if self.attached is None:
            return
        try:
            await self.db.decide(controls.detach(connection_id=self.attached.connection_id))
        except (*DATABASE_ERRORS, Busy) as error:
            logger.warning("presence.not_detached", extra={"run_id": self.run_id.hex, "error": repr(error)})
