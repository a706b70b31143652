"""Who watches a shell: a row for each connection that only looks on, with a lease as a control connection has one.

Nothing depends on it but what people are told: it keeps no shell alive and starts no grace. A row that lapsed counts
for nobody, whether or not it was taken away.
"""

from typing import Any
from uuid import UUID

from runs.conf import limits
from runs.decisions.core import Bell, Decision, Query, lock_run
from runs.frames import tenant_bell

MOST_NAMES = 50  # that are told; beyond them only how many there are

COME = """
insert into runs_shellviewer (id, run_id, user_id, presence_until)
select %(id)s, id, %(user)s, clock_timestamp() + %(presence)s * interval '1 second'
from runs_run where id = %(run)s and terminal_at is null on conflict (id) do nothing returning id"""
RENEW = """
update runs_shellviewer set presence_until = clock_timestamp() + %(presence)s * interval '1 second'
where id = %(id)s returning id"""
LEAVE = """
delete from runs_shellviewer where id = %(id)s and (not %(if_lapsed)s or presence_until < clock_timestamp())
returning id"""
# Whoever follows the run looks again.
CHANGED = """
update runs_run set version = version + 1 where id = %(run)s and terminal_at is null
returning tenant_id, id, version"""
LAPSED = "select id, run_id, presence_until as due_at from runs_shellviewer where presence_until < clock_timestamp()"


def come(*, viewer_id: UUID, run_id: UUID, user_id: int) -> Decision[bool]:
    """Count a connection that watches. False: the run has ended, or the connection counts already."""
    yield from lock_run(run_id)
    presence = limits().presence_seconds
    rows = yield Query(COME, {"id": viewer_id, "run": run_id, "user": user_id, "presence": presence})
    if rows:
        yield from _tell(run_id)
    return bool(rows)


def renew(*, viewer_id: UUID) -> Decision[bool]:
    """Take a sign of life from a client that watches. False: it had lapsed and was taken away; it comes anew."""
    rows: list[dict[str, Any]] = yield Query(
        RENEW, {"id": viewer_id, "presence": limits().presence_seconds}, is_alone=True
    )
    return bool(rows)


def leave(*, viewer_id: UUID, run_id: UUID, if_lapsed: bool = False) -> Decision[bool]:
    """Count a connection no more. False: it did not. if_lapsed: only where it gave no sign of life within its lease."""
    yield from lock_run(run_id)
    rows = yield Query(LEAVE, {"id": viewer_id, "if_lapsed": if_lapsed})
    if rows:
        yield from _tell(run_id)
    return bool(rows)


def _tell(run_id: UUID) -> Decision[None]:
    for row in (yield Query(CHANGED, {"run": run_id})):
        yield Bell(*tenant_bell(row["tenant_id"], row["id"], row["version"]))
