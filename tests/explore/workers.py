"""What workers do in an order: each script has the shape of the real code (runs/execution), without its I/O.

The executor has a loop, sockets and clocks around the same decisions; here only the order of the decisions is kept,
and what is done with each of their answers.
"""

from collections.abc import Collection, Generator
from typing import Any
from uuid import UUID

from runs import frames
from runs.decisions import append, cancels, claims, dispatch, endings, operations, steps, waiting
from runs.execution.inherited import EVIDENCE, NOTHING_CAN_LAND
from runs.execution.stopping import DISPATCHED
from runs.frames import Draft, Origin
from runs.ids import new_id
from runs.states import CancelReason, Status
from tests.explore.actors import Look, Outside, Script
from tests.explore.orders import World

LEASE = 3600.0
FINISHED = """select path from runs_step s join runs_run r on r.stream_id = s.stream_id
where r.id = %(run)s and s.state = 'finished'"""
PROOF = {"proof": "http 201"}
# "over": the run is not this worker's any more; "on": the agent goes on.
type Part = Generator[Any, Any, str]


def holder(world: World, fence: int, *calls: str, worker: str = "worker-a", done: Collection[str] = ()) -> Script:
    """Hold the run: make the calls one after another, then finish. A call is "model", "read", "idempotent", "write".

    done: the paths of calls whose results are stored.
    """
    for number, kind in enumerate(calls, start=1):
        if str(number) not in done and (yield from call(world, fence, kind, str(number), worker)) == "over":
            return
    yield from finish(world, fence)


def claimant(world: World, *calls: str, worker: str = "worker-b") -> Script:
    """Claim the run and carry it on: its agent from the start, or its stop."""
    claimed = yield claims.claim(run_id=world.run_id, worker=worker, lease_seconds=LEASE)
    if isinstance(claimed, claims.NotClaimable):
        return
    world.facts[claimed.fence] = Origin(world.run_id, claimed.run["attempt"], claimed.run["stream_id"])
    if claimed.run["status"] == Status.CANCELLING:
        for row in (yield Look(DISPATCHED, {"run": world.run_id})):
            yield from learn(world, claimed.fence, row, is_stopping=True)
        yield endings.end_cancel(run_id=world.run_id, fence=claimed.fence)
        return
    finished = yield Look(FINISHED, {"run": world.run_id})
    done = {row["path"] for row in finished}
    yield from holder(world, claimed.fence, *calls, worker=worker, done=done)


def step_call(kind: str, path: str) -> dispatch.StepCall:
    """Describe a call of the agent at `path`."""
    is_model = kind == "model"
    return dispatch.StepCall(path, "model" if is_model else "tool", kind, {}, "d" * 64, None if is_model else kind)


def key_of(world: World, path: str) -> str:
    """Return the operation key of the call at `path`."""
    return f"{world.run_id.hex}:{path}"


def begin(world: World, fence: int, kind: str, path: str, worker: str = "worker-a", nonce: UUID | None = None) -> Any:
    """Ask for the permit of a call."""
    has_ledger = kind not in ("model", "read")
    return dispatch.dispatch(
        run_id=world.run_id, fence=fence, worker=worker, step=step_call(kind, path), nonce=nonce or new_id(),
        operation=dispatch.OperationCall(key_of(world, path), False, True, 0.0) if has_ledger else None,
        message_id=new_id() if kind == "model" else None,
        origin=world.facts.get(fence) or Origin(world.run_id, world.run.attempt, world.run.stream_id),
    )  # fmt: skip


def call(world: World, fence: int, kind: str, path: str, worker: str = "worker-a") -> Part:
    """Make one call, as runs/execution does."""
    answer = yield begin(world, fence, kind, path, worker)
    if isinstance(answer, dispatch.InOperation):
        known = yield from inherit(world, fence, kind, path, answer.operation)
        if known != "again":
            return known
        answer = yield begin(world, fence, kind, path, worker)
    if isinstance(answer, dispatch.Refused):
        return (yield from refused(world, fence, answer.reason))
    assert isinstance(answer, dispatch.Dispatched)
    if answer.operation_id is None:
        return (yield from end_call(world, fence, answer.step_id, None))
    return (yield from send(world, fence, kind, path, answer.step_id, answer.operation_id))


def send(world: World, fence: int, kind: str, path: str, step_id: UUID, operation_id: UUID) -> Part:
    """Use the permit: the request leaves, lands, and its reply is recorded; a void permit is given back."""
    key = key_of(world, path)

    def leave() -> bool:
        if not world.facts.get("is_void"):
            world.target.under_way.append(key)
        return not world.facts.get("is_void")

    if not (yield Outside("the request leaves", leave)):
        given_back = steps.OperationOutcome("refuted", {"proof": "nothing was sent"}, gave_up=True)
        return (yield from end_call(world, fence, step_id, given_back, state="abandoned"))
    happened = yield Outside("it lands", lambda: land(world, key, kind))
    outcome = steps.OperationOutcome("succeeded" if happened else "failed", PROOF, gave_up=True)
    ended = yield steps.finish_step(
        run_id=world.run_id, fence=fence, step_id=step_id, state="finished" if happened else "failed", outcome=outcome
    )
    if isinstance(ended, claims.Lost):
        yield operations.record_evidence(
            operation_id=operation_id, fence=fence, kind="receipt" if happened else "refusal", happened=happened,
            detail=PROOF,
        )  # fmt: skip
        return "over"
    return "on"


def land(world: World, key: str, kind: str) -> bool:
    """Let a request that is under way take effect; somebody else may have lost it."""
    world.target.under_way.remove(key)
    return world.target.land(key, dedupes=kind == "idempotent")


def end_call(
    world: World, fence: int, step_id: UUID, outcome: steps.OperationOutcome | None, state: str = "finished"
) -> Part:
    """Record how a call ended."""
    ended = yield steps.finish_step(run_id=world.run_id, fence=fence, step_id=step_id, state=state, outcome=outcome)
    return "over" if isinstance(ended, claims.Lost) else "on"


def refused(world: World, fence: int, reason: str) -> Part:
    """Do what follows a refusal."""
    if reason == "cancel":
        yield from end_stop(world, fence)
    elif reason == "unknown_open":
        yield endings.park(run_id=world.run_id, fence=fence)
    elif reason == "deadline":
        yield cancels.request_cancel(run_id=world.run_id, reason=CancelReason.DEADLINE, overdue_only=True)
        yield from end_stop(world, fence)
    return "over"


def inherit(world: World, fence: int, kind: str, path: str, row: dict[str, Any]) -> Part:
    """Make of an older dispatch what can be made of it. "again": it may be sent."""
    if row["state"] in ("succeeded", "confirmed"):
        if row["stream_id"] != world.facts.get(fence, world.run).stream_id:  # of an earlier attempt
            step = step_call(kind, path)
            answer = yield steps.instant_step(run_id=world.run_id, fence=fence, step=step, result=1, facts=[])
            if isinstance(answer, dispatch.Refused):
                return (yield from refused(world, fence, answer.reason))
            return "on"
        return (yield from end_call(world, fence, row["step_id"], None))
    if row["state"] != "dispatched":
        return (yield from refused(world, fence, "unknown_open"))
    known = yield from learn(world, fence, row)
    if known == "unknown":
        return (yield from refused(world, fence, "unknown_open"))
    return known


def learn(world: World, fence: int, row: dict[str, Any], *, is_stopping: bool = False) -> Part:
    """Find out what became of an older dispatch, and store it: by evidence, by the target, else it is unknown."""
    kept = yield Look(EVIDENCE, {"operation": row["id"], "fence": row["fence"]})
    found = bool(kept) or (yield Outside("look-up", lambda: world.target.look_up(row["key"])))
    state, word = "finished", "succeeded"
    if not found:
        is_so = (yield Look(NOTHING_CAN_LAND, {"operation": row["id"]}))[0]["is_so"]
        state, word = ("superseded", "refuted") if is_so else ("open", "unknown")
    if word == "unknown" and not is_stopping:
        answer = yield operations.mark_unknown(
            run_id=world.run_id, fence=fence, operation_id=row["id"], message="nobody could tell"
        )
        if isinstance(answer, claims.Lost):
            return "over"
        if not answer:
            return "unknown"
        return (yield from end_call(world, fence, row["step_id"], None))
    outcome = steps.OperationOutcome(word, PROOF)
    answer = yield steps.finish_step(
        run_id=world.run_id, fence=fence, step_id=row["step_id"], state=state, outcome=outcome
    )
    if isinstance(answer, claims.Lost):
        return "over"
    return {"unknown": "unknown", "refuted": "again"}.get(answer.operation_state, "on")


def finish(world: World, fence: int) -> Script:
    """End the run as completed; where a stop was first, end that."""
    ended = yield endings.finish_run(run_id=world.run_id, fence=fence, status=Status.COMPLETED, result=1)
    if isinstance(ended, endings.NotEnded) and ended.reason == "cancel":
        yield from end_stop(world, fence)
    elif isinstance(ended, endings.NotEnded) and ended.reason == "open":
        yield endings.park(run_id=world.run_id, fence=fence, has_result=True, result=1)


def end_stop(world: World, fence: int) -> Script:
    """See the stop, then end it."""
    seen = yield claims.see_cancel(run_id=world.run_id, fence=fence)
    if isinstance(seen, claims.Seen):
        yield endings.end_cancel(run_id=world.run_id, fence=fence)


def heartbeat(world: World, fence: int, worker: str = "worker-a") -> Script:
    """Renew the lease once; act on what the answer says."""
    words = yield claims.renew(worker=worker, held={world.run_id: fence}, lease_seconds=LEASE)
    if words[world.run_id] == "CANCEL_REQUESTED":
        yield from end_stop(world, fence)


def writer(world: World, fence: int, *numbers: int) -> Script:
    """Append batches of text; a number that comes again is a batch whose commit's answer was lost."""
    for number in numbers:
        lines = [{"fence": fence, "batch": number, "line": line} for line in (1, 2)]
        drafts = [Draft("tool.progress", frames.dump({"type": "tool.progress", "data": line})) for line in lines]
        stored = yield append.append_many([append.Batch(world.run_id, fence, number, drafts)])
        if world.run_id not in stored:
            return


def asker(world: World, fence: int) -> Script:
    """Look at a question that was asked, then wait for it or go on, as the walk does."""
    seen = yield Look("select wakes from runs_run where id = %(run)s", {"run": world.run_id})
    state = yield Look("select state from runs_question where id = %(q)s", {"q": world.question_id})
    if state[0]["state"] != "open":
        yield from finish(world, fence)
        return
    answer = yield waiting.wait(run_id=world.run_id, fence=fence, wakes=seen[0]["wakes"], waiting_for="input")
    if isinstance(answer, waiting.NotWaiting) and answer.reason == "woken":
        yield from finish(world, fence)
    elif isinstance(answer, waiting.NotWaiting) and answer.reason == "cancel":
        yield from end_stop(world, fence)
