"""Child runs: how one begins, how its end reaches its parent, and who is below a run.

A parent counts in `open_children` the children that have not ended, as far as the outbox has told it. They do not keep
it from waiting, but from finishing, parking and ending a cancel (RULES H14). Runs are locked by id, and a child's id
is larger than its parent's, so that is from the root down; nobody locks a parent while holding a child.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.child_retry import find_earlier_child, may_be_tried_again, try_again
from runs.decisions.core import RUN_COLUMNS, Decision, Fact, Query, Row, jsonb, lock_run, record, tell_worker
from runs.decisions.creation import NewRun, Parentage, create
from runs.decisions.dispatch import GATE, Refused, StepCall, begin_step, refuse
from runs.decisions.endings import end_cancel
from runs.decisions.operations import reconcile
from runs.decisions.shells import NewShell, add_shell
from runs.decisions.waiting import wake
from runs.ids import text_id
from runs.states import MOST_DESCENDANTS, STOPPING, Status


@dataclass(frozen=True, slots=True)
class Spawned:
    """The child is queued, and its step is open until its end."""

    step_id: UUID
    child_id: UUID


@dataclass(frozen=True, slots=True)
class NotBorn:
    """The tree is full, or an earlier child waits for an operator. The step is stored as failed with this error."""

    error: dict[str, Any]


# The gate of every dispatch, for a step that is counted as a child instead of a call.
SPAWN_GATE = GATE.replace("open_ops = open_ops + %(adds)s", "open_children = open_children + 1")
COUNT_DESCENDANT = """
update runs_run set descendants = descendants + 1, version = version + 1
where id = %(root)s and descendants < %(most)s returning id"""


def spawn(
    *, run_id: UUID, fence: int, root_id: UUID | None, step: StepCall, child: NewRun, shell: NewShell | None = None
) -> Decision[Spawned | NotBorn | Refused]:
    """Begin a child run: its row, its place in the parent's counters, and both first events.

    Args: root_id: of the run's tree, None when it is the root itself; child: its deadline is cut to the parent's;
    shell: the child is a shell, which no attempt has again: its terminal is gone with what was in it.
    Races: a cancel, an end, a deadline, another claim or an unknown operation that committed first wins, as at any
    dispatch, and nobody is born after it. A tree has at most 100 descendants: then NotBorn, and the step has failed. In
    a retry the child that an earlier attempt began here is tried again itself.
    Raises: RuleBroken when the path was used for another call or has a result already.
    """
    if root_id is not None:
        yield from lock_run(root_id)  # every spawn of a tree meets here, so its count is exact
    run = yield from lock_run(run_id)
    if run is None or run["fence"] != fence:
        return Refused("lost")
    root = run["root_id"] or run_id
    if shell is None and (earlier := (yield from find_earlier_child(run, step))) is not None:
        return (yield from _spawn_again(run, fence, step, earlier, child))
    room = yield Query("select descendants < %(most)s as is_there from runs_run where id = %(root)s",
                       {"root": root, "most": MOST_DESCENDANTS})  # fmt: skip
    if not room[0]["is_there"]:
        return (yield from _fail(run, fence, step, FULL))
    rows = yield Query(SPAWN_GATE, {"run": run_id, "fence": fence})
    if not rows:
        return (yield from refuse(run, fence))
    counted = yield Query(COUNT_DESCENDANT, {"root": root, "most": MOST_DESCENDANTS})
    assert counted  # read above, under the root's lock
    step_id = yield from begin_step(run, fence, step)
    made = yield from create(child, Parentage(run_id, step_id, root, run["deadline_at"]))
    assert made is not None  # a child has no idempotency key
    shell_id = None if shell is None else (yield from add_shell(made["id"], shell))
    yield from record(run, _born(step, step_id, made["id"], child, shell_id))
    return Spawned(step_id, made["id"])


def _spawn_again(
    run: Row, fence: int, step: StepCall, earlier: UUID, child: NewRun
) -> Decision[Spawned | NotBorn | Refused]:
    """Go on with the child that an earlier attempt began here, so that it does nothing twice."""
    if not (yield from may_be_tried_again(earlier)):
        return (yield from _fail(run, fence, step, CONTRADICTED))
    if not (yield Query(SPAWN_GATE, {"run": run["id"], "fence": fence})):
        return (yield from refuse(run, fence))
    step_id = yield from begin_step(run, fence, step)
    yield from try_again(run, step_id, earlier, child)
    yield from record(run, _born(step, step_id, earlier, child))
    return Spawned(step_id, earlier)


def _born(step: StepCall, step_id: UUID, child_id: UUID, child: NewRun, shell_id: UUID | None = None) -> list[Fact]:
    started = {"path": step.path, "kind": "child", "name": step.name}
    born = {"child_id": text_id("run", child_id), "agent": child.agent, "title": child.title}
    if shell_id is not None:
        born["shell_id"] = text_id("shell", shell_id)
    return [Fact("step.started", started, step_id), Fact("child.started", born, step_id)]


FULL = {"code": "too_many_children", "message": f"A run and its children begin at most {MOST_DESCENDANTS} runs."}
CONTRADICTED = {
    "code": "operation_contradicted",
    "message": "A late receipt contradicts what was decided about an operation of the child: an operator's case.",
}


def _fail(run: Row, fence: int, step: StepCall, error: dict[str, Any]) -> Decision[NotBorn | Refused]:
    if not (yield Query(STILL_MINE, {"run": run["id"], "fence": fence})):
        return (yield from refuse(run, fence))
    step_id = yield from begin_step(run, fence, step)
    yield Query(FINISH_STEP, {"step": step_id, "state": "failed", "result": None, "error": jsonb(error)})
    data = {"path": step.path, "kind": "child"}
    ended = Fact("step.finished", data | {"state": "failed", "error": error}, step_id)
    yield from record(run, [Fact("step.started", data | {"name": step.name}, step_id), ended])
    return NotBorn(error)


STILL_MINE = "select 1 from runs_run where id = %(run)s and fence = %(fence)s and status = 'running'"
FINISH_STEP = """
update runs_step set state = %(state)s, result = %(result)s, error = %(error)s, finished_at = clock_timestamp()
where id = %(step)s and state = 'open' returning path"""

BELOW = f"""
with recursive below as (
  select id from runs_run where parent_id = %(run)s
  union all select r.id from runs_run r join below b on r.parent_id = b.id
)
select {RUN_COLUMNS}, clock_timestamp() as now,
  lease_until is not null and lease_until >= clock_timestamp() as has_live_lease
from runs_run where id in (select id from below) and (terminal_at is null or told_parent is null)
order by id for no key update"""


def lock_below(run_id: UUID) -> Decision[list[Row]]:
    """Lock what lives below a run, and what has ended there without its parent knowing it, from the top down.

    The caller holds the run. While we wait for one of them it may begin a child that our statement did not see; once
    all are locked nobody is born any more.
    """
    rows: list[Row] = []
    while True:
        found = yield Query(BELOW, {"run": run_id})
        if {r["id"] for r in found} == {r["id"] for r in rows}:
            return found
        rows = found


LOCK_CHILD = "select id from runs_run where id = %(child)s and parent_id = %(parent)s for no key update"
TELL = """
with before as (
  select id as child, told_parent as told_before from runs_run where id = %(child)s and parent_id = %(parent)s
), told as (
  update runs_run set told_parent = case status when 'needs_reconciliation' then 'doubt' else 'settled' end
  from before
  where id = child and terminal_at is not null
    and (told_parent is null or (told_parent = 'doubt' and status <> 'needs_reconciliation'))
  returning id, agent, status, result, error_code, error_message, cancel_reason, parent_step_id, told_before
), counted as (
  update runs_run parent set
    open_children = open_children - case when told_before is null then 1 else 0 end,
    unknown_ops = unknown_ops + case when told.status = 'needs_reconciliation' then 1
      when told_before = 'doubt' then -1 else 0 end
  from told where parent.id = %(parent)s
  returning parent.open_children, parent.unknown_ops
), cleared as (
  delete from runs_outboxrow where kind = 'child' and run_id in (select id from told)
)
select told.*, counted.* from told, counted"""


def tell(parent: Row, child_id: UUID) -> Decision[list[Fact] | None]:
    """Count a child's end in its parent, whose row the caller holds; the parent's step gets what the child brought.

    A child that needs reconciliation is counted as something unknown, and its step stays open; told again once it is
    settled. Returns the facts to record on the parent, and brings the counters of `parent` up to date. None: there is
    nothing to tell, or it was told before.
    """
    ids = {"parent": parent["id"], "child": child_id}
    yield Query(LOCK_CHILD, ids)  # it may be settled right now: judge what that says
    rows = yield Query(TELL, ids)
    if not rows:
        return None
    child = rows[0]
    parent |= {"open_children": child["open_children"], "unknown_ops": child["unknown_ops"]}
    step_id = child["parent_step_id"]
    kind = "child.finished" if child["told_before"] is None else "child.settled"
    facts = [Fact(kind, {"child_id": text_id("run", child_id), "status": child["status"]}, step_id)]
    if child["status"] == Status.NEEDS_RECONCILIATION:
        return facts
    state, error = ("finished", None) if child["status"] == Status.COMPLETED else ("failed", _error_of(child))
    result = jsonb({"value": child["result"]})
    closed = yield Query(FINISH_STEP, {"step": step_id, "state": state, "result": result, "error": jsonb(error)})
    if closed:  # else an end of the parent has closed it
        data = {"path": closed[0]["path"], "kind": "child", "state": state}
        facts.append(Fact("step.finished", data | ({"error": error} if error else {}), step_id))
    return facts


def _error_of(child: Row) -> dict[str, Any]:
    child_id = text_id("run", child["id"])
    if child["status"] == Status.CANCELLED:
        code, message = "child_cancelled", f"The child run was stopped ({child['cancel_reason']})."
    else:
        code, message = child["error_code"] or "child_failed", child["error_message"] or "The child run failed."
    return {"code": code, "message": message, "child_id": child_id, "status": child["status"]}


CLEAR_TOLD = """
delete from runs_outboxrow where kind = 'child' and run_id = %(run)s and exists (
  select 1 from runs_run where id = %(run)s
    and (told_parent = 'settled' or (told_parent = 'doubt' and status = 'needs_reconciliation')))"""


def count_end(*, run_id: UUID) -> Decision[bool]:
    """Let the parent of an ended run know of its end (by the outbox). False: there is nothing to tell.

    A waiting parent goes on. A stopping one that waited for nothing else ends here; one in needs_reconciliation that
    was only in doubt about this child is reconciled.
    """
    rows = yield Query("select parent_id from runs_run where id = %(run)s", {"run": run_id})
    parent_id = rows[0]["parent_id"] if rows else None
    parent = None if parent_id is None else (yield from lock_run(parent_id))
    facts = None if parent is None else (yield from tell(parent, run_id))
    if parent is None or facts is None:
        yield Query(CLEAR_TOLD, {"run": run_id})
        return False
    if parent["status"] in (Status.RUNNING, Status.WAITING):
        yield from wake(parent, facts)
        return True
    yield from record(parent, facts)
    if parent["terminal_at"] is not None:
        yield from reconcile(parent)
    elif parent["has_live_lease"]:
        yield from tell_worker(parent)
    if parent["status"] in STOPPING and parent["open_children"] == 0:
        yield from end_cancel(run_id=parent["id"])  # by its own guard: where a holder is at work, it is the holder's
    return True
