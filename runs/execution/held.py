"""One claim as this process holds it: its fence, its scope, and the end of its lease as we believe it.

Shared by two threads: the loop, which runs the agent, and the lease keeper. The keeper writes `believed_until` and
`cancel_seen_at`; everything else belongs to the loop. What we believe ends 1.5 s before the row's lease (RULES H15).
"""

import asyncio
import contextlib
from collections.abc import Iterator
from uuid import UUID

from runs.execution.outlet import Outlet
from runs.frames import Origin
from runs.ids import text_id
from tools.permit import Permit
from tools.scope import CancelReason, Scope, boottime


class Held:
    """The claim of one run."""

    outlet: Outlet  # set right after the claim; it needs `lose`

    def __init__(self, *, origin: Origin, fence: int, scope: Scope, believed_until: float) -> None:
        self.origin = origin
        self.fence = fence
        self.scope = scope
        self.believed_until = believed_until
        self.cancel_seen_at: float | None = None
        self.is_over = False  # the claim was given back by our own decision; a late LOST says nothing
        self.should_look = asyncio.Event()  # somebody says that the row has changed
        self._permits: set[Permit] = set()

    @property
    def run_id(self) -> UUID:
        return self.origin.run_id

    @property
    def prefix(self) -> str:
        """What the key of every process of the run begins with (tools.call.ToolCall.process_key)."""
        return text_id("run", self.run_id)

    @property
    def is_lost(self) -> bool:
        """True once nothing may be written any more but evidence."""
        return self.scope.reason is CancelReason.LOST or boottime() >= self.believed_until

    def lose(self) -> None:
        """Stop everything: the fence is not ours, or nobody can say that it still is. On the loop only."""
        if self.is_over:
            return
        # A cancel may have been the first reason; what matters now is that the claim is gone.
        self.scope.reason = CancelReason.LOST
        self.scope.cancel_event.set()
        self.give_back_permits()
        self.outlet.close()
        self.should_look.set()

    @contextlib.contextmanager
    def permit_in_use(self, permit: Permit) -> Iterator[None]:
        """Know of a permit while its call lasts, so that a stop can give it back unused."""
        self._permits.add(permit)
        try:
            yield
        finally:
            self._permits.discard(permit)

    def give_back_permits(self) -> None:
        """Make sure that no call which has not begun ever begins (RULES H5)."""
        for permit in self._permits:
            permit.give_back()
