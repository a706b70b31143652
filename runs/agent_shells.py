"""Shells that agents open: where one is, whether its agent may type now, and how its end is known. Reads only."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.database import fetch
from runs.ids import parse_id, text_id
from runs.states import OperationState
from tools.errors import ToolError

# By the step that opened it: that is the same in every attempt, so that a command keeps its operation key.
PLACE = """
select h.id as shell, r.id as run, p.id as parent from runs_run p
join runs_step s on s.stream_id = p.stream_id and s.path = %(path)s
join runs_run r on r.parent_step_id = s.id join runs_shell h on h.run_id = r.id
where p.id = %(parent)s"""
# The gate of an agent's keys, asked for each line: no stop, its own claim, and nobody has taken the shell over.
# `over`: the newest person in control that this answer knows of; the terminal lets nothing in over a newer one.
MAY_TYPE = """
select r.status in ('queued', 'running', 'waiting') and p.status = 'running' and p.fence = %(fence)s
    and h.held_by_id is null as may,
  coalesce((select max(generation) from runs_controlconnection where run_id = r.id), 0) as over
from runs_shell h join runs_run r on r.id = h.run_id join runs_run p on p.id = r.parent_id
where h.id = %(shell)s"""
STANDING = """
select r.terminal_at is not null as is_over, h.held_by_id is not null as is_held, o.state as operation
from runs_shell h join runs_run r on r.id = h.run_id left join lateral (
  select state from runs_operation where run_id = r.id order by created_at desc limit 1) o on true
where h.id = %(shell)s"""
_GONE = (OperationState.SUCCEEDED, OperationState.CONFIRMED, OperationState.FAILED, OperationState.REFUTED)


@dataclass(frozen=True, slots=True)
class Place:
    """A shell, its run, and the run of the agent that has opened it."""

    shell: UUID
    run: UUID
    parent: UUID

    @property
    def key(self) -> str:
        """The name of its terminal."""
        return text_id("shell", self.shell)


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether an agent may type; over: the generation of the newest person in control."""

    may: bool
    over: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a shell stands. is_gone: its end is proven; is_lost: it ended, and nobody can say whether all of it did."""

    is_over: bool
    is_held: bool
    is_gone: bool
    is_lost: bool


def find_place(run_id: str, path: str) -> Place:
    """Find the shell that a run has opened at a step. Raises: ToolError."""
    rows = fetch(PLACE, {"parent": parse_id("run", run_id), "path": path})
    if not rows:
        raise ToolError("This run has opened no shell there.", code="no_shell")
    return Place(**rows[0])


def may_type(place: Place, fence: int) -> Asked:
    """Ask whether the claim of this fence may type; good for as long as its permit is."""
    rows = fetch(MAY_TYPE, {"shell": place.shell, "fence": fence})
    return Asked(bool(rows[0]["may"]), int(rows[0]["over"])) if rows else Asked(False, 0)


def read_standing(place: Place) -> Standing:
    """Read how a shell stands."""
    return judge(fetch(STANDING, {"shell": place.shell})[0])


def judge(row: dict[str, Any]) -> Standing:
    """Judge a row of STANDING."""
    state = row["operation"]
    is_gone = state in _GONE or (state is None and row["is_over"])
    return Standing(row["is_over"], row["is_held"], is_gone, state == OperationState.UNKNOWN)
