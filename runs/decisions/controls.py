"""Connections whose presence matters: attach, sign of life, detach, lapse (RULES H17).

The run's row counts the live ones. Losing the last one starts the grace on that row; attaching clears it; a
supervisor fires what is overdue as a cancel. Nobody here touches the work itself.
"""

from dataclasses import dataclass
from uuid import UUID

from runs.conf import limits
from runs.decisions.agent_shells import CLOSE_PILOTS, lock_with_parent, take_over
from runs.decisions.core import Decision, Query, Row, lock_run
from runs.ids import new_id
from runs.states import CANCELLABLE


@dataclass(frozen=True, slots=True)
class Attached:
    """A live connection; `generation` is higher than that of every earlier one."""

    connection_id: UUID
    generation: int
    grace_seconds: float | None


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else is in control, by a live connection; of an agent's shell the agent (user_id None) or its taker."""

    generation: int
    user_id: int | None


LAPSED = "is_live and presence_until < clock_timestamp()"  # it gave no sign of life within its lease
START_GRACE = """
update runs_run set control_count = control_count - 1, version = version + 1,
  grace_expires_at = case when control_count = 1 and on_disconnect = 'grace'
    and status in ('queued', 'running', 'waiting')
    then clock_timestamp() + grace_seconds * interval '1 second' else grace_expires_at end
where id = %(run)s and control_count > 0"""
# The version tells an end that was decided without a lock that a connection has come or gone (core.see_run).
CLEAR_GRACE = """
update runs_run set control_count = control_count + 1, version = version + 1, grace_expires_at = null
where id = %(run)s"""


def attach(*, run_id: UUID, user_id: int) -> Decision[Attached | None]:
    """Count a new control connection and clear a running grace. None: the run has ended or is stopping."""
    run = yield from lock_run(run_id)
    if run is None or run["status"] not in CANCELLABLE:
        return None
    return (yield from _attach(run, user_id))


def attach_pilot(
    *, run_id: UUID, user_id: int, had: int | None = None, takes_over: bool = False
) -> Decision[Attached | Held | None]:
    """Count the connection that is in control of the run's shell, in place of the one that was.

    Args: had: the generation of this person's connection that comes back here, and so displaces itself;
    takes_over: displace whoever it is. Returns Held, changing nothing, where somebody is in control and neither
    applies; None: the run has ended or is stopping. Races: of two that take over, the later one is in control, and
    the other's renewal says that its connection was closed.

    Nobody comes to be in control of an agent's shell but by taking it over; it is theirs then until they hand it back.
    """
    run, shell = yield from lock_with_parent(run_id)
    if run is None or run["status"] not in CANCELLABLE:
        return None
    if shell is not None and not takes_over and shell["held_by_id"] != user_id:
        return Held(0, shell["held_by_id"])
    live = yield Query(
        """select generation, user_id from runs_controlconnection
           where run_id = %(run)s and is_pilot and is_live and presence_until > clock_timestamp()
           order by generation desc limit 1""",
        {"run": run_id},
    )
    if live and not takes_over and (live[0]["generation"], live[0]["user_id"]) != (had, user_id):
        return Held(live[0]["generation"], live[0]["user_id"])
    yield Query(CLOSE_PILOTS, {"run": run_id})
    attached = yield from _attach(run, user_id, is_pilot=True)
    if shell is not None:
        yield from take_over(run, shell, user_id)
    return attached


def _attach(run: Row, user_id: int, *, is_pilot: bool = False) -> Decision[Attached]:
    run_id = run["id"]
    rows = yield Query(
        """insert into runs_controlconnection (id, run_id, user_id, generation, presence_until, is_live, is_pilot)
           select %(id)s, %(run)s, %(user)s, coalesce(max(generation), 0) + 1,
                  clock_timestamp() + %(presence)s * interval '1 second', true, %(pilot)s::boolean
           from runs_controlconnection where run_id = %(run)s returning id, generation""",
        {"id": new_id(), "run": run_id, "user": user_id, "presence": limits().presence_seconds, "pilot": is_pilot},
    )
    yield Query(CLEAR_GRACE, {"run": run_id})
    return Attached(rows[0]["id"], rows[0]["generation"], run["grace_seconds"])


def _lock_connection(connection_id: UUID) -> Decision[tuple[Row, Row] | None]:
    rows = yield Query("select run_id from runs_controlconnection where id = %(id)s", {"id": connection_id})
    run = (yield from lock_run(rows[0]["run_id"])) if rows else None
    if run is None:
        return None
    rows = yield Query(
        "select * from runs_controlconnection where id = %(id)s for no key update", {"id": connection_id}
    )
    return run, rows[0]


def renew_presence(*, connection_id: UUID) -> Decision[bool]:
    """Take a sign of life from the client. One that had lapsed is live again and clears the grace.

    False: this connection was closed; the client attaches anew.
    """
    found = yield from _lock_connection(connection_id)
    if found is None or found[1]["closed_at"] is not None:
        return False
    run, connection = found
    yield Query(
        """update runs_controlconnection set is_live = true,
             presence_until = clock_timestamp() + %(presence)s * interval '1 second' where id = %(id)s""",
        {"id": connection_id, "presence": limits().presence_seconds},
    )
    if not connection["is_live"]:
        yield Query(CLEAR_GRACE, {"run": run["id"]})
    return True


def detach(*, connection_id: UUID) -> Decision[bool]:
    """Close a connection; the last live one starts the grace. False: it was closed before."""
    found = yield from _lock_connection(connection_id)
    if found is None or found[1]["closed_at"] is not None:
        return False
    run, connection = found
    yield Query(
        "update runs_controlconnection set is_live = false, closed_at = clock_timestamp() where id = %(id)s",
        {"id": connection_id},
    )
    if connection["is_live"]:
        yield Query(START_GRACE, {"run": run["id"]})
    return True


def lapse(*, connection_id: UUID) -> Decision[bool]:
    """Stop counting a connection that gave no sign of life within its presence lease. False: it did."""
    found = yield from _lock_connection(connection_id)
    if found is None:
        return False
    rows = yield Query(
        f"update runs_controlconnection set is_live = false where id = %(id)s and {LAPSED} returning id",
        {"id": connection_id},
    )
    if not rows:
        return False
    yield Query(START_GRACE, {"run": found[0]["id"]})
    return True
