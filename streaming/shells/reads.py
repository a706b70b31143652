"""What the sockets of shells read from the database. The only SQL of the package."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from runs.database import Database
from runs.decisions.core import iso
from runs.decisions.viewers import MOST_NAMES
from runs.states import CANCELLABLE, ENDED, Status

STATE = """
select r.status, r.cancel_reason, r.grace_expires_at, r.grace_seconds, clock_timestamp() as at,
  s.opened_by, s.held_by_id, (select username from auth_user where id = s.held_by_id) as held_by,
  coalesce(s.exit_code, ended.exit_code) as exit_code, coalesce(s.signal, ended.signal) as signal
from runs_shell s join runs_run r on r.id = s.run_id
left join lateral jsonb_to_record(case when jsonb_typeof(r.result) = 'object' then r.result end)
  as ended (exit_code int, signal int) on true
where s.id = %(shell)s"""  # the shell's row follows a sweep later than the run's result
# The gate of input: read for each batch, by rows alone. An agent's shell is only theirs who have taken it over.
MAY_TYPE = """
select r.status in ('queued', 'running', 'waiting') as is_open,
  s.id is null or s.opened_by = 'person' or s.held_by_id = %(user)s as is_theirs
from runs_run r left join runs_shell s on s.run_id = r.id where r.id = %(run)s"""
PILOT = """
select c.generation, u.username as name from runs_controlconnection c join auth_user u on u.id = c.user_id
where c.run_id = %(run)s and c.is_pilot and c.is_live and c.presence_until > clock_timestamp()
order by c.generation desc limit 1"""

# Those who came first are named first; a row whose lease has passed is nobody.
WATCHING = """
select u.username as name, count(*) as windows, u.id = %(user)s as mine
from runs_shellviewer v join auth_user u on u.id = v.user_id
where v.run_id = %(run)s and v.presence_until > clock_timestamp()
group by u.id, u.username order by min(v.attached_at), u.id"""


@dataclass(frozen=True, slots=True)
class State:
    """A shell's run, and its end, as the rows say."""

    status: str
    cancel_reason: str | None
    grace_expires_at: datetime | None
    grace_seconds: float | None
    at: datetime
    opened_by: str
    held_by_id: int | None  # who has taken an agent's shell over
    held_by: str | None
    exit_code: int | None
    signal: int | None

    @property
    def is_over(self) -> bool:
        """The run has ended."""
        return Status(self.status) in ENDED

    @property
    def may_type(self) -> bool:
        """No cancel is recorded, and the run has not ended."""
        return Status(self.status) in CANCELLABLE

    @property
    def told(self) -> dict[str, Any]:
        """What a `run` frame tells, but for the time of the database."""
        return {
            "status": self.status, "cancel_reason": self.cancel_reason, "grace_expires_at": iso(self.grace_expires_at),
            "opened_by": self.opened_by, "held_by": self.held_by,
        }  # fmt: skip

    @property
    def why(self) -> str:
        """Why the shell has ended: exited, the reason of its stop, or the status that its run ended with."""
        if self.cancel_reason:
            return self.cancel_reason
        return "exited" if self.status in ("completed", "running") else self.status


async def read_state(db: Database, shell_id: UUID) -> State | None:
    """Read where a shell stands; None when it was deleted."""
    rows = await db.fetch(STATE, {"shell": shell_id})
    return State(**rows[0]) if rows else None


class MayType(Enum):
    """Whether input of a person may be passed on. SHUT: a cancel is recorded, or the run has ended."""

    YES = "yes"
    SHUT = "shut"
    NOT_THEIRS = "not theirs"  # an agent's shell that they have not taken over, or have handed back


async def may_type(db: Database, run_id: UUID, user_id: int) -> MayType:
    """Say whether input of this person may be passed on."""
    rows = await db.fetch(MAY_TYPE, {"run": run_id, "user": user_id})
    if not rows or not rows[0]["is_open"]:
        return MayType.SHUT
    return MayType.YES if rows[0]["is_theirs"] else MayType.NOT_THEIRS


@dataclass(frozen=True, slots=True)
class InControl:
    """Who is in control."""

    generation: int
    name: str


async def read_pilot(db: Database, run_id: UUID) -> InControl | None:
    """Say who is in control; None: nobody."""
    rows = await db.fetch(PILOT, {"run": run_id})
    return InControl(**rows[0]) if rows else None


async def read_watching(db: Database, run_id: UUID, user_id: int) -> tuple[list[dict[str, Any]], int]:
    """Say who watches: {name, windows, mine} of the first of them, and how many people more there are."""
    rows = await db.fetch(WATCHING, {"run": run_id, "user": user_id})
    return rows[:MOST_NAMES], max(0, len(rows) - MOST_NAMES)
