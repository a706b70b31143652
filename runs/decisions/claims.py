"""Who may advance a run: claim, renew, release, and what is taken from a dead or slow holder."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from runs.decisions.core import RUN_COLUMNS, Decision, Fact, Query, Row, ask_for_worker, lock_run, record
from runs.decisions.deaths import MAY_CARRY, count_death
from runs.decisions.evidence import insert_evidence
from runs.decisions.fresh import claim_fresh
from runs.decisions.steps_closing import close_steps
from runs.states import Status


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller holds the run. `run` has the row's columns and `input`, `now`, `deadline_in_seconds`."""

    fence: int
    run: Row


@dataclass(frozen=True, slots=True)
class NotClaimable:
    """Somebody else holds it, or there is nothing to do. Not an error."""

    status: str | None


@dataclass(frozen=True, slots=True)
class Lost:
    """The fence is no longer the caller's: stop without writing anything but evidence."""


@dataclass(frozen=True, slots=True)
class Released:
    """The claim is given back; another worker may take the run at once."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The cancel is being carried out by this claim."""

    reason: str


# Lock, take and clear the wish for a worker in one statement.
CLAIM = f"""
with before as (
  select id as run_id, status as status_before, lease_owner as owner_before, fence as fence_before
  from runs_run where id = %(run)s for no key update
), taken as (
  update runs_run set
    fence = fence + 1, lease_owner = %(worker)s, last_batch = 0, last_batch_seq = 0,
    lease_until = clock_timestamp() + %(lease)s * interval '1 second',
    status = case status when 'queued' then 'running' when 'cancel_requested' then 'cancelling' else status end,
    started_at = coalesce(started_at, clock_timestamp()),
    cancel_seen_at = case when status = 'cancel_requested' then clock_timestamp() else cancel_seen_at end,
    cancel_seen_by = case when status = 'cancel_requested' then %(worker)s else cancel_seen_by end,
    cancel_seen_fence = case when status = 'cancel_requested' then fence + 1 else cancel_seen_fence end
  from before
  where id = run_id and status in ('queued', 'running', 'cancel_requested', 'cancelling')
    and (lease_until is null or lease_until < clock_timestamp()) and {MAY_CARRY}
  returning {RUN_COLUMNS}, input, metadata, history, clock_timestamp() as now, true as has_live_lease,
    extract(epoch from deadline_at - clock_timestamp())::float8 as deadline_in_seconds,
    extract(epoch from stop_deadline_at - clock_timestamp())::float8 as stop_in_seconds,
    status_before, owner_before, fence_before
), cleared as (
  delete from runs_outboxrow where run_id in (select id from taken)
)
select * from taken"""


def claim(
    *, run_id: UUID, worker: str, lease_seconds: float, is_alone: bool = False
) -> Decision[Claimed | NotClaimable]:
    """Take the right to advance a run: a lease and a fence that is one higher than any before.

    Args: is_alone: this process carries nothing else, so it may take what has killed two workers.

    Steps that a dead claim left open and that may be repeated (reads, model calls) are closed as superseded;
    its writes, idempotent calls and processes stay `dispatched` for the new holder to look up.
    Races: a live lease of another worker, or an end, wins; then NotClaimable is returned.
    """
    fresh = yield from claim_fresh(run_id=run_id, worker=worker, lease_seconds=lease_seconds)
    if fresh is not None:
        return Claimed(fresh["fence"], fresh)
    query = Query(CLAIM, {"run": run_id, "worker": worker, "lease": lease_seconds, "alone": is_alone})
    rows = yield query
    if not rows:
        # It may have become claimable while we waited for its lock: the statement judged what it saw before.
        row = yield from lock_run(run_id)
        rows = (yield query) if row is not None else []
        if not rows:
            return NotClaimable(None if row is None else row["status"])
    run = rows[0]
    facts: list[Fact] = []
    if run["owner_before"] is not None:
        facts.append(Fact("claim.lost", {"fence": run["fence_before"], "reason": "lease_expired"}))
    if run["fence_before"] > 0:  # the first claim has nothing to clean up
        stopping = run["status"] == Status.CANCELLING
        closed = yield from close_steps(
            run, repeatable_only=True, state="abandoned" if stopping else "superseded",
            reason="stop" if stopping else "superseded",
        )  # fmt: skip
        facts += closed.facts
    facts.append(Fact("claim.started", {"fence": run["fence"], "worker": worker}))
    if run["status_before"] == Status.QUEUED:
        facts.append(Fact("run.started", {}))
    if run["status_before"] == Status.CANCEL_REQUESTED:
        facts.append(Fact("run.cancelling", {"fence": run["fence"]}))
    yield from record(run, facts)
    return Claimed(run["fence"], run)


RENEW = """
with want as (select * from unnest(%(ids)s::uuid[], %(fences)s::int8[]) w(id, fence)),
held as (
  select r.id from runs_run r join want w on w.id = r.id and w.fence = r.fence
  where r.lease_owner = %(worker)s and r.status in ('running', 'cancel_requested', 'cancelling')
  order by r.id for no key update of r
)
update runs_run r set lease_until = clock_timestamp() + %(lease)s * interval '1 second'
from held h where r.id = h.id returning r.id, r.status"""


def renew(*, worker: str, held: dict[UUID, int], lease_seconds: float) -> Decision[dict[UUID, str]]:
    """Extend every lease that this worker still holds, in one statement.

    Returns for each run HELD, CANCEL_REQUESTED (the heartbeat carries the cancel) or LOST (stop at once).
    """
    rows = yield Query(
        RENEW,
        {"ids": list(held), "fences": list(held.values()), "worker": worker, "lease": lease_seconds},
    )
    words: dict[UUID, str] = {run_id: "LOST" for run_id in held}
    for row in rows:
        words[row["id"]] = "HELD" if row["status"] == Status.RUNNING else "CANCEL_REQUESTED"
    return words


SEE_CANCEL = f"""
update runs_run set status = 'cancelling', cancel_seen_at = clock_timestamp(), cancel_seen_by = lease_owner,
  cancel_seen_fence = fence
where id = %(run)s and fence = %(fence)s and status = 'cancel_requested'
returning {RUN_COLUMNS}, clock_timestamp() as now"""


def see_cancel(*, run_id: UUID, fence: int) -> Decision[Seen | Lost | None]:
    """Move a run whose stop was asked for to `cancelling`, by its holder. None: no stop was asked for."""
    query = Query(SEE_CANCEL, {"run": run_id, "fence": fence})
    rows = yield query
    if not rows:
        run = yield from lock_run(run_id)
        if run is None or run["fence"] != fence:
            return Lost()
        if run["status"] == Status.CANCELLING:
            return Seen(run["cancel_reason"])
        rows = yield query  # a request may have committed while we waited for its lock
        if not rows:
            return None
    yield from record(rows[0], [Fact("run.cancelling", {"fence": fence})])
    return Seen(rows[0]["cancel_reason"])


def release(*, run_id: UUID, fence: int, even_in_flight: bool = False) -> Decision[Released | Lost]:
    """Give the claim back (drain, deploy). The run stays what it is and asks for another worker.

    `even_in_flight`: the drain time is over, so the claim goes although something is dispatched.
    """
    run = yield from lock_run(run_id)
    rows = yield Query(
        """update runs_run set fence = fence + 1, lease_until = null, lease_owner = null
           where id = %(run)s and fence = %(fence)s and status in ('running', 'cancel_requested', 'cancelling')
             and (open_ops = 0 or %(force)s) returning id""",
        {"run": run_id, "fence": fence, "force": even_in_flight},
    )
    if run is None or not rows:
        return Lost()
    yield from record(run, [Fact("claim.lost", {"fence": fence, "reason": "drain"})])
    yield from ask_for_worker(run_id)
    return Released()


def take_from_dead(*, run_id: UUID, worker: str, is_death: bool = True) -> Decision[bool]:
    """Free a run whose worker was seen to exit, without waiting for its lease. False: it is not that worker's.

    Args: is_death: it counts against the step that was open; not when a deploy has ended the worker.
    """
    return (yield from _take_away(run_id, "lease_owner = %(worker)s", worker, "worker_lost", is_death=is_death))


def expire_lease(*, run_id: UUID) -> Decision[bool]:
    """Free a run whose lease has passed, so that its followers are told and another worker comes. False: it has not."""
    return (yield from _take_away(run_id, "lease_until < clock_timestamp()", "", "lease_expired"))


def _take_away(run_id: UUID, guard: str, worker: str, reason: str, *, is_death: bool = False) -> Decision[bool]:
    run = yield from lock_run(run_id)
    rows = yield Query(
        f"""update runs_run set fence = fence + 1, lease_until = null, lease_owner = null
            where id = %(run)s and {guard} returning id""",
        {"run": run_id, "worker": worker},
    )
    if run is None or not rows:
        return False
    data = {"fence": run["fence"], "reason": reason}
    if is_death:
        data["deaths"] = yield from count_death(run)
    yield from record(run, [Fact("claim.lost", data)])
    yield from ask_for_worker(run_id)
    return True


def mark_holder_gone(*, worker: str, proof: dict[str, Any]) -> Decision[int]:
    """Note on each of the worker's unfinished operations that nothing more can come from it (RULES H6).

    That includes its older tries of operations that somebody else has sent again.
    """
    rows = yield Query(
        """update runs_operation set holder_gone_at = clock_timestamp(), version = version + 1
           where id in (select id from runs_operation
             where worker = %(worker)s and state in ('dispatched', 'unknown') and holder_gone_at is null
             order by id for no key update)
           returning id, fence""",
        {"worker": worker},
    )
    strays = yield Query(
        """select operation_id as id, fence from runs_evidence stray
           where kind = 'stray' and detail ->> 'worker' = %(worker)s and not exists (
             select 1 from runs_evidence seen where seen.operation_id = stray.operation_id
               and seen.fence = stray.fence and seen.kind = 'exit')""",
        {"worker": worker},
    )
    tries = rows + strays
    for row in tries:
        yield from insert_evidence(row["id"], row["fence"], "exit", None, proof)
    return len(tries)
