"""Who is in control of a shell: a control connection that is the only one (runs/decisions/controls.py)."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from runs.database import Database
from runs.decisions import agent_shells, controls
from runs.decisions.controls import Attached, Held
from streaming.presence import Presence


class Pilot(Presence):
    """The control connection of one socket, while it has one. `on_lost` is called when another one took its place."""

    def __init__(self, db: Database, run_id: UUID, user_id: int, *, on_lost: Callable[[], Any]) -> None:
        super().__init__(db, run_id, user_id)
        self._on_lost = on_lost

    @property
    def generation(self) -> int | None:
        """Its generation, where it is in control."""
        return None if self.attached is None else self.attached.generation

    async def come(self, had: int | None) -> Held | None:
        """Be in control unless somebody else is. `had`: the generation of the connection that comes back here."""
        return await self._attach(had=had)

    async def take_over(self) -> Held | None:
        """Be in control, in place of whoever it was. Returns them; None as well where a stop came first."""
        held = await self._attach()
        if held is not None:
            await self._attach(takes_over=True)
        return None if self.attached is None else held

    async def _attach(self, **how: Any) -> Held | None:
        found = await self.db.decide(controls.attach_pilot(run_id=self.run_id, user_id=self.user_id, **how))
        self.attached = found if isinstance(found, Attached) else None
        return found if isinstance(found, Held) else None

    async def closed(self) -> None:
        """It was displaced: it never comes back by itself, or two windows would take a shell from each other."""
        self.lose()

    def lose(self) -> None:
        """Somebody else is in control now."""
        if self.attached is not None:
            self.attached = None
            self._on_lost()

    async def hand_back(self) -> bool:
        """Give an agent's shell back to the agent, and be in control no more. False: it was not theirs."""
        is_given = await self.db.decide(agent_shells.hand_back(run_id=self.run_id, user_id=self.user_id))
        self.attached = None
        return is_given

    async def release(self) -> None:
        """Be in control no more."""
        await self.detach()
        self.attached = None
