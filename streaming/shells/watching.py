"""Who watches a shell: the row of one socket while it is not in control, and what it is told of all who watch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from runs.database import Database
from runs.decisions import viewers
from runs.errors import Busy
from runs.ids import new_id
from streaming.hub import DATABASE_ERRORS
from streaming.presence import RENEW_SECONDS
from streaming.shells.reads import read_watching

logger = logging.getLogger(__name__)


class Watching:
    """One socket. `tell` is called with who watches, at the start and at each change. A lease is renewed only by a
    sign of life from the client, as that of a pilot is."""

    def __init__(
        self, db: Database, run_id: UUID, user_id: int, *, tell: Callable[[list[dict[str, Any]], int], Awaitable[None]]
    ) -> None:
        self._db, self._run_id, self._user_id, self._tell = db, run_id, user_id, tell
        self._viewer_id: UUID | None = None
        self._told: tuple[list[dict[str, Any]], int] | None = None
        self._sign = asyncio.Event()
        self._turn = asyncio.Lock()
        self._watches = False

    def sign_of_life(self) -> None:
        """The client has said something."""
        self._sign.set()

    async def stand(self, *, watches: bool) -> None:
        """Watch from now on, or do so no more (it is in control, or leaves). What cannot be written is left to the
        next sign of life, or to the lease."""
        self._watches = watches
        try:
            async with self._turn:
                if watches and self._viewer_id is None:
                    await self._come()
                elif not watches and self._viewer_id is not None:
                    await self._db.decide(viewers.leave(viewer_id=self._viewer_id, run_id=self._run_id))
                    self._viewer_id = None
        except (*DATABASE_ERRORS, Busy) as error:
            logger.warning("shell.viewer_not_noted", extra={"run_id": self._run_id.hex, "error": repr(error)})

    async def keep(self) -> None:
        """Write signs of life down until cancelled, and see who has lapsed."""
        while True:
            await self._sign.wait()
            self._sign.clear()
            try:
                async with self._turn:
                    if self._viewer_id is not None and not await self._db.decide(
                        viewers.renew(viewer_id=self._viewer_id)
                    ):
                        self._viewer_id = None
                await self.stand(watches=self._watches)
            except (*DATABASE_ERRORS, Busy) as error:
                logger.warning("shell.viewer_not_renewed", extra={"run_id": self._run_id.hex, "error": repr(error)})
            await self.look()
            await asyncio.sleep(RENEW_SECONDS)

    async def look(self) -> None:
        """Tell who watches, if that has changed."""
        try:
            found = await read_watching(self._db, self._run_id, self._user_id)
        except DATABASE_ERRORS as error:
            logger.warning("shell.database_away", extra={"error": repr(error)})
            return
        if found != self._told:
            self._told = found
            await self._tell(*found)

    async def _come(self) -> None:
        # Known before it is stored: whoever cuts us here still has it taken away.
        self._viewer_id = viewer_id = new_id()
        if not await self._db.decide(viewers.come(viewer_id=viewer_id, run_id=self._run_id, user_id=self._user_id)):
            self._viewer_id = None
