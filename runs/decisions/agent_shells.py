"""Whose an agent's shell is: the agent's, or a person's from their take-over until they hand it back.

The row says it, not a connection: a person who goes away keeps it. A run is locked before its child, as everywhere.
"""

from typing import Any
from uuid import UUID

from runs.decisions.core import Bell, Decision, Fact, Query, Row, lock_run, record
from runs.frames import tenant_bell
from runs.ids import text_id

READ = """
select h.held_by_id, r.parent_id, r.parent_step_id from runs_shell h join runs_run r on r.id = h.run_id
where h.run_id = %(run)s and h.opened_by = 'agent' and r.parent_id is not null"""
TAKE = """
update runs_shell set held_by_id = %(user)s where run_id = %(run)s and held_by_id is distinct from %(user)s
returning (select username from auth_user where id = %(user)s) as name"""
GIVE = "update runs_shell set held_by_id = null where run_id = %(run)s and held_by_id = %(user)s returning id"
# Whoever was in control is so no more; the count of live connections follows.
CLOSE_PILOTS = """
with others as (
  select id, is_live from runs_controlconnection where run_id = %(run)s and is_pilot and closed_at is null),
closed as (
  update runs_controlconnection set is_live = false, closed_at = clock_timestamp()
  where id in (select id from others))
update runs_run set version = version + 1,
  control_count = control_count - (select count(*) from others where is_live) where id = %(run)s"""
VERSION = "select tenant_id, version from runs_run where id = %(run)s"


def lock_with_parent(run_id: UUID) -> Decision[tuple[Row | None, Row | None]]:
    """Lock a run, and before it the run whose agent has opened it as a shell. Returns (run, shell).

    shell: held_by_id, and parent (its row) and parent_step_id; None where it is no agent's.
    """
    rows = yield Query(READ, {"run": run_id})
    if not rows:
        return (yield from lock_run(run_id)), None
    parent = yield from lock_run(rows[0]["parent_id"])
    run = yield from lock_run(run_id)
    rows = yield Query(READ, {"run": run_id})  # as it is now
    return run, {**rows[0], "parent": parent}


def take_over(run: Row, shell: Row, user_id: int) -> Decision[None]:
    """Make an agent's shell a person's; both runs are locked. From here on no key of the agent goes in."""
    rows = yield Query(TAKE, {"run": run["id"], "user": user_id})
    if rows:
        yield from _tell(run, shell, "child.taken_over", {"held_by": rows[0]["name"]})


def hand_back(*, run_id: UUID, user_id: int) -> Decision[bool]:
    """Make it the agent's again. False: it is not this person's."""
    run, shell = yield from lock_with_parent(run_id)
    if run is None or shell is None or not (yield Query(GIVE, {"run": run_id, "user": user_id})):
        return False
    yield Query(CLOSE_PILOTS, {"run": run_id})
    yield from _tell(run, shell, "child.handed_back", {"held_by": None})
    return True


def ring_version(run_id: UUID) -> Decision[None]:
    """Have those who look at the run look again."""
    rows = yield Query(VERSION, {"run": run_id})
    for row in rows:
        yield Bell(*tenant_bell(row["tenant_id"], run_id, row["version"]))


def _tell(run: Row, shell: Row, kind: str, data: dict[str, Any]) -> Decision[None]:
    parent = shell["parent"]
    if parent is not None and parent["terminal_at"] is None:
        told = {"child_id": text_id("run", run["id"]), **data}
        yield from record(parent, [Fact(kind, told, shell["parent_step_id"])])
    yield from ring_version(run["id"])
