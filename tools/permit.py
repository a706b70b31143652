"""A permit: what the dispatch gate hands out, used at most once (DESIGN section 1, RULES H5).

unused --open()--> used
unused --give_back(), or open() that comes too late--> given back
"""

import threading
from dataclasses import dataclass, field
from enum import StrEnum

from tools.errors import PermitExpired, PermitUsed
from tools.scope import boottime


class PermitState(StrEnum):
    """Where a permit is in its life; it only moves away from UNUSED, once."""

    UNUSED = "unused"
    USED = "used"
    GIVEN_BACK = "given_back"


class PermitUse:
    """The one mutable part of a permit. Locked, because the lease keeper's thread may give permits back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = PermitState.UNUSED

    @property
    def state(self) -> PermitState:
        return self._state

    def move(self, to: PermitState) -> PermitState:
        """Leave UNUSED for `to` if nobody did before. Returns the state that was found."""
        with self._lock:
            found = self._state
            if found is PermitState.UNUSED:
                self._state = to
            return found


@dataclass(frozen=True)
class Permit:
    """The right to begin one call. void_at: CLOCK_BOOTTIME seconds; the nonce is made before the dispatch."""

    nonce: str
    key: str
    fence: int
    void_at: float
    use: PermitUse = field(default_factory=PermitUse, compare=False, repr=False)

    @property
    def is_used(self) -> bool:
        """True once the call began: from then on only a receipt or a look-up settles the operation."""
        return self.use.state is PermitState.USED

    def open(self) -> None:
        """Use the permit; the caller sends its first byte right after.

        Raises: PermitUsed on a second use; PermitExpired after `void_at` or when it was given back. A permit that
        came too late is given back by this call, so "expired" proves that nothing was sent.
        """
        late = boottime() >= self.void_at
        found = self.use.move(PermitState.GIVEN_BACK if late else PermitState.USED)
        if found is PermitState.USED:
            raise PermitUsed(self.key)
        if late or found is PermitState.GIVEN_BACK:
            raise PermitExpired(self.key, "late" if late else "given_back")

    def give_back(self) -> bool:
        """Make sure the permit is never used. Returns False when the call had begun already."""
        return self.use.move(PermitState.GIVEN_BACK) is not PermitState.USED
