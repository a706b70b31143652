"""A child of an earlier attempt, tried again by its parent's new attempt: as a new attempt of itself.

A fresh child would know nothing of what the old one has sent, and do it twice. The old child keeps its ledger, so that
what was committed is taken over (RULES H13); it reuses of its steps what the parent's retry reuses.
"""

from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Query, Row, lock_run
from runs.decisions.creation import NewRun
from runs.decisions.dispatch import StepCall
from runs.decisions.retry import NotRetried, Wish, retry
from runs.states import Reuse

EARLIER = """
select c.id from runs_run c join runs_step s on s.id = c.parent_step_id
where c.parent_id = %(run)s and s.path = %(path)s and s.digest = %(digest)s and s.stream_id <> %(stream)s
order by c.id desc limit 1"""
WHO = """
select a.created_by_id as id, person.username as name, a.reuse from runs_attempt a
join auth_user person on person.id = a.created_by_id where a.stream_id = %(stream)s"""
CONTRADICTED = "select 1 from runs_operation where run_id = %(run)s and contradicted_at is not null limit 1"
ADOPT = """
update runs_run set parent_step_id = %(step)s, told_parent = null, version = version + 1
where id = %(run)s and told_parent = 'settled' returning id"""


def find_earlier_child(run: Row, step: StepCall) -> Decision[UUID | None]:
    """Return the child that an earlier attempt began with the same call at the same place, locked."""
    if run["attempt"] == 1:
        return None
    rows = yield Query(
        EARLIER, {"run": run["id"], "path": step.path, "digest": step.digest, "stream": run["stream_id"]}
    )
    if not rows:
        return None
    child = yield from lock_run(rows[0]["id"])
    return None if child is None else child["id"]


def may_be_tried_again(child_id: UUID) -> Decision[bool]:
    """Say whether no evidence speaks against what is decided of its operations: an operator must look at that first."""
    return not (yield Query(CONTRADICTED, {"run": child_id}))


def try_again(run: Row, step_id: UUID, child_id: UUID, child: NewRun) -> Decision[None]:
    """Queue the child as a new attempt under the parent's new step. The caller holds both, and asked if it may."""
    who = yield Query(WHO, {"stream": run["stream_id"]})
    adopted = yield Query(ADOPT, {"step": step_id, "run": child_id})
    assert adopted  # a parent is retried when it is settled, and then each child has told its end
    left: Any = child.deadline_seconds
    if run["deadline_at"] is not None:
        left = min(left, (run["deadline_at"] - run["now"]).total_seconds())
    wish = Wish(
        run_id=child_id,
        user_id=who[0]["id"],
        user_name=who[0]["name"],
        reason="The run that began it is tried again.",
        reuse=Reuse(who[0]["reuse"]),
        deadline_seconds=left,
    )
    answer = yield from retry(wish, with_parent=True)
    assert not isinstance(answer, NotRetried)  # asked before, under its lock
