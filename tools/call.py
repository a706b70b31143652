"""What an adapter gets: who calls, under which key and fence, and how much time is left."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.effects import JSON
from tools.errors import PermitExpired, PermitUsed
from tools.permit import Permit
from tools.processes.host import ProcessHost
from tools.processes.terminals.owned import Terminals
from tools.scope import Scope, boottime


@dataclass(frozen=True)
class ToolCall:
    """One dispatched call, built by the executor from a permit; agents never make one.

    settings: plain text by name (TARGET_URL, SMTP_HOST, FETCH_ALLOW_PRIVATE, ...). deadline: CLOCK_BOOTTIME seconds,
    the end of this call's own time; the scope's deadline counts as well.
    """

    run_id: str
    step_id: str
    tenant_id: str
    user_id: str
    operation_key: str
    fence: int
    permit: Permit
    scope: Scope
    workspace: Path
    settings: Mapping[str, str]
    processes: ProcessHost
    progress: Callable[[JSON], Awaitable[None]]
    deadline: float | None = None
    terminals: Terminals | None = None  # where this machine has a host of them
    user: tuple[int, int] | None = None  # uid and gid of who its commands run as; None: who we are

    @property
    def process_key(self) -> str:
        """The key of this call's processes: it begins with the run's id, so one renewal reaches all of a run's."""
        return f"{self.run_id}/{self.step_id}"

    def remaining(self) -> float:
        """Return the seconds that this call may still take, never below 0; `math.inf` for no limit."""
        own = math.inf if self.deadline is None else max(0.0, self.deadline - boottime())
        return min(own, self.scope.remaining())

    def open(self) -> None:
        """Use the permit. An adapter with an outside effect calls this right before its first byte, and once.

        Raises: PermitUsed, PermitExpired. A cancel that this process has seen, or a deadline that has passed, gives an
        unused permit back here, so the call never begins (RULES H5).
        """
        if self.scope.reason is not None or self.remaining() <= 0:
            if not self.permit.give_back():
                raise PermitUsed(self.permit.key)
            raise PermitExpired(self.permit.key, "late" if self.scope.reason is None else "cancelled")
        self.permit.open()


@dataclass(frozen=True)
class LookUpCall:
    """A question to the target about one operation. It only reads, and needs no permit of the run."""

    operation_key: str
    settings: Mapping[str, str]
    arguments: Mapping[str, Any]
    dispatched_at: datetime
