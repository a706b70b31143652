"""Which steps of earlier attempts a new one may take over: finished ones, until the first that it does anew. Pure.

"Until" is in the order in which an agent does things, told by the call paths: step numbers stand at the 1st, 3rd, 5th …
place of a path, and branches of a gather between them; branches do not come after each other.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.states import StepState

type Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step as the database has it. value: of a finished step; error: {"code", "message", ...} of a failed one."""

    id: UUID
    path: str
    kind: str
    name: str
    digest: str
    state: StepState
    value: Any
    error: dict[str, Any]
    question_id: UUID | None
    wake_at: datetime | None
    is_in_doubt: bool = False  # of a child that ended, and whose outcome is not settled yet


class EarlierSteps:
    """The newest step of each path in earlier attempts. redone: paths whose operation is to be done again."""

    def __init__(self, steps: Mapping[str, StoredStep], redone: Collection[str] = ()) -> None:
        self._steps = steps
        self._cuts: list[Place] = []
        for path, step in steps.items():
            if step.state is not StepState.FINISHED or path in redone:
                self._cut(path)

    def find(self, path: str, kind: str, name: str, digest: str) -> StoredStep | None:
        """Return the step that a call may take over; a call that has none cuts off what comes after it."""
        step, place = self._steps.get(path), place_of(path)
        is_same = step is not None and (step.kind, step.name, step.digest) == (kind, name, digest)
        if not is_same:
            self._cut(path)
        return step if is_same and not any(place == cut or comes_after(place, cut) for cut in self._cuts) else None

    def _cut(self, path: str) -> None:
        place = place_of(path)
        if any(place == cut or comes_after(place, cut) for cut in self._cuts):
            return
        self._cuts = [cut for cut in self._cuts if not comes_after(cut, place)] + [place]


def place_of(path: str) -> Place:
    """Read a call path."""
    return tuple(int(part) for part in path.split("."))


def comes_after(place: Place, other: Place) -> bool:
    """Say whether an agent comes to a place only after another one: not so in two branches of a gather."""
    for index, (mine, theirs) in enumerate(zip(place, other, strict=False)):
        if mine != theirs:
            return index % 2 == 0 and mine > theirs
    return False
