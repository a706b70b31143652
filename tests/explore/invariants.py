"""What must be true of a run after every commit, whoever raced whom: read from its rows, not from any code of ours.

Pure but for `READ`, one statement that any connection can run. Used by the explorer after each commit, by the races
and the random walks, and by whatever kills real processes.

    check_rows      one state of a run: its log, its counters, its end
    check_change    two states, one commit apart
    check_effects   the ledger against what really happened at the target
"""

from collections.abc import Iterable, Mapping
from typing import Any

from runs.states import (
    CANCELLABLE,
    CLAIMABLE,
    ENDED,
    EPILOGUE,
    SETTLED,
    STOPPING,
    TERMINAL_EVENT,
    OperationState,
    Status,
    is_allowed,
)

type Rows = dict[str, Any]

READ = """
select to_jsonb(r) as run, r.lease_until >= clock_timestamp() as has_live_lease,
  r.deadline_at <= clock_timestamp() as is_overdue,
  coalesce((select jsonb_agg(jsonb_build_object('stream', e.stream_id, 'seq', e.seq, 'type', e.type,
      'data', case when e.type ~ '^(text[.]|claim[.]|input[.]|tool.progress)' then (e.data::jsonb) -> 'data' end)
      order by e.stream_id, e.seq)
    from runs_event e join runs_attempt a on a.stream_id = e.stream_id where a.run_id = r.id), '[]') as events,
  coalesce((select jsonb_agg(jsonb_build_object('stream', a.stream_id, 'status', a.status)) from runs_attempt a
    where a.run_id = r.id), '[]') as attempts,
  coalesce((select jsonb_agg(jsonb_build_object('id', o.id, 'key', o.key, 'state', o.state, 'stream', s.stream_id,
      'contradicted', o.contradicted_at is not null,
      'verdict', exists (select 1 from runs_evidence v where v.operation_id = o.id and v.kind = 'verdict')))
    from runs_operation o join runs_step s on s.id = o.step_id where o.run_id = r.id), '[]') as operations,
  (select count(*) from runs_step s where s.run_id = r.id and s.state = 'open' and s.kind in ('model', 'tool')
     and not exists (select 1 from runs_operation o where o.step_id = s.id)) as calls,
  (select count(*) from runs_step where run_id = r.id and state = 'open') as steps,
  coalesce((select jsonb_object_agg(s.id, s.fence) from runs_step s where s.run_id = r.id and s.state = 'open'
    and s.kind in ('model', 'tool', 'child')), '{}') as begun,
  (select count(*) from runs_question where run_id = r.id and state = 'open') as questions,
  (select count(*) from runs_controlconnection where run_id = r.id and is_live) as connections,
  (select count(*) from runs_outboxrow where run_id = r.id and kind = 'advance') as wishes,
  (select count(*) from runs_outboxrow where run_id = r.id and kind = 'child') as words_to_parent,
  (select count(*) from runs_run c where c.parent_id = r.id and c.told_parent is null) as children,
  (select count(*) from runs_run c where c.parent_id = r.id and c.terminal_at is null) as live_children,
  (select count(*) from runs_run c where c.parent_id = r.id and c.told_parent = 'doubt') as doubts
from runs_run r where r.id = %(run)s"""
READ_TREE = READ + " or r.root_id = %(run)s order by r.id"

BEGINS = {"step.started", "model.started", "tool.started", "tool.dispatched", "text.start"}
BEGINS |= {"input.requested", "child.started"}
TERMINAL = frozenset(TERMINAL_EVENT.values())
IN_DOUBT = {OperationState.DISPATCHED, OperationState.UNKNOWN}
HAPPENED = {OperationState.SUCCEEDED, OperationState.CONFIRMED}
DID_NOT = {OperationState.INTENDED, OperationState.FAILED, OperationState.REFUTED}
# What a decision that looked without a lock rests on: whoever changes any of it adds to the version (core.see_run).
WITH_VERSION = (
    "status", "fence", "lease_owner", "open_ops", "unknown_ops", "open_children", "wakes", "waiting_for", "attempt",
    "cancel_id", "terminal_at", "control_count", "has_result",
)  # fmt: skip


def check_rows(rows: Rows) -> None:
    """Assert every invariant of one state of one run."""
    run, events = rows["run"], rows["events"]
    for attempt in rows["attempts"]:
        log = [event for event in events if event["stream"] == attempt["stream"]]
        is_current = attempt["stream"] == run["stream_id"]
        last = run["last_seq"] if is_current else len(log)
        assert [event["seq"] for event in log] == list(range(1, last + 1)), "the log has a hole"
        types = [event["type"] for event in log]
        _check_stop(types)
        _check_texts(log)
        _check_writers(log)
        _check_terminal(types, attempt["status"])
        if is_current:
            assert attempt["status"] == (run["status"] if run["status"] in ENDED else None), "attempt and run disagree"
    _check_counters(rows)
    _check_end(rows)
    _check_somebody_acts(rows)


def _check_stop(types: list[str]) -> None:
    if "run.cancel_requested" in types:
        later = types[types.index("run.cancel_requested") :]
        assert later.count("run.cancel_requested") == 1, "the stop was recorded twice"
        assert not BEGINS.intersection(later), "something began after the stop was asked for"
        assert "run.completed" not in later, "it completed after the stop was asked for"
        assert "run.waiting" not in later, "it went to wait after the stop was asked for"


def _check_texts(log: Iterable[Mapping[str, Any]]) -> None:
    is_open: set[str] = set()
    for event in log:
        if event["type"] == "text.start":
            is_open.add(event["data"]["message_id"])
        if event["type"] == "text.end":
            assert event["data"]["message_id"] in is_open, "a text ended that was not open"
            is_open.remove(event["data"]["message_id"])
        if event["type"] in TERMINAL:
            assert not is_open, "a text is open at the end"


def _check_writers(log: Iterable[Mapping[str, Any]]) -> None:
    """Text that says which claim wrote it comes once, in order, and never after a newer claim; a question ends once."""
    fence, written, closed = 0, [], []
    for event in log:
        data = event["data"] or {}
        if event["type"] == "claim.started":
            fence = data["fence"]
        if "batch" in data:
            assert data["fence"] >= fence, "a stale worker wrote"
            written.append((data["fence"], data["batch"], data["line"]))
        if event["type"] in ("input.answered", "input.expired"):
            closed.append(data["question_id"])
    assert written == sorted(set(written)), "a batch was stored twice, or out of order"
    assert len(closed) == len(set(closed)), "a question was closed twice"


def _check_terminal(types: list[str], status: str | None) -> None:
    ends = [i for i, name in enumerate(types) if name in TERMINAL]
    if status is None:
        assert ends == [], "a terminal event of an attempt that has not ended"
        return
    assert len(ends) == 1, "one terminal event, not more and not less"
    assert set(types[ends[0] + 1 :]) <= EPILOGUE, "something besides the epilogue came after the end"
    if "run.reconciled" not in types:
        assert types[ends[0]] == TERMINAL_EVENT[Status(status)], "the terminal event is of another status"


def _check_counters(rows: Rows) -> None:
    run = rows["run"]
    states = [operation["state"] for operation in rows["operations"]]
    assert run["open_ops"] == states.count("dispatched") + rows["calls"], "open_ops is not what the ledger says"
    unknown = states.count("unknown") + rows["doubts"]
    assert run["unknown_ops"] == unknown, "unknown_ops is not what the ledger and the children say"
    assert run["open_children"] == rows["children"], "open_children is not what the children have told"
    assert run["control_count"] == rows["connections"], "control_count is not what the connections say"


def _check_end(rows: Rows) -> None:
    run, status = rows["run"], rows["run"]["status"]
    if status not in ENDED:
        return
    parts = ("steps", "questions", "wishes", "connections", "live_children")
    is_open = {name: rows[name] for name in parts if rows[name]}
    assert not is_open, f"something is open after the end: {is_open}"
    assert (run["open_ops"], run["lease_until"]) == (0, None), "an ended run is held"
    assert all(o["state"] != OperationState.DISPATCHED for o in rows["operations"]), "it ended, and a call is in flight"
    in_doubt = [o["key"] for o in rows["operations"] if o["state"] in IN_DOUBT]
    in_doubt += ["a child"] * rows["doubts"]
    assert bool(in_doubt) == (status == Status.NEEDS_RECONCILIATION), f"{status}, and in doubt is {in_doubt}"
    types = {event["type"] for event in rows["events"] if event["stream"] == run["stream_id"]}
    if status in (Status.CANCELLED, Status.COMPLETED):
        assert (status == Status.CANCELLED) == (run["cancel_id"] is not None), "the stop and the end disagree"
        assert status == Status.CANCELLED or run["has_result"], "it completed without a result"
    if run["cancel_id"] is not None:
        assert "run.cancel_requested" in types, "it was stopped, and the log does not say so"
        _check_receipt(rows)


def _check_receipt(rows: Rows) -> None:
    effects = rows["run"]["cancel_effects"]
    assert effects is not None, "a stopped run has no receipt"
    assert all(effect["outcome"] != "pending" for effect in effects), "the receipt is not complete"
    named = {effect.get("operation_key") for effect in effects}
    own = {o["key"] for o in rows["operations"] if o["stream"] == rows["run"]["stream_id"]}
    assert own <= named, "the receipt leaves an operation out"


def _check_somebody_acts(rows: Rows) -> None:
    run = rows["run"]
    if run["status"] in CLAIMABLE and run["lease_owner"] is None:
        ends_with_child = run["cancel_id"] and rows["children"] and not run["open_ops"] + run["unknown_ops"]
        assert rows["wishes"] or ends_with_child, "nobody will ever come for this run"
    if run["status"] == Status.WAITING:
        assert run["wake_at"] or rows["questions"] or rows["children"], "it waits for nothing"
        assert not run["unknown_ops"] or rows["children"], "it waits beside an unknown outcome"
    if run["parent_id"] and run["status"] in ENDED and run["told_parent"] is None:
        assert rows["words_to_parent"], "its parent will never hear of its end"
    if run["status"] in STOPPING:
        assert not rows["questions"], "a question is open after the stop"
    if run["status"] in CANCELLABLE and run["control_count"]:
        assert run["grace_expires_at"] is None, "the grace runs while a connection is live"


def check_change(before: Rows, after: Rows) -> None:
    """Assert what holds between two states of a run that are one commit apart."""
    old, new = before["run"], after["run"]
    was, now = Status(old["status"]), Status(new["status"])
    is_retried = new["attempt"] != old["attempt"]
    assert was == now or is_allowed(was, now) or is_retried, f"{was} -> {now}"
    assert new["fence"] >= old["fence"], "the fence went back"
    assert new["version"] >= old["version"], "the version went back"
    changed = [name for name in WITH_VERSION if old[name] != new[name]]
    assert not changed or new["version"] > old["version"], f"{changed} changed at one version"
    if is_retried:
        assert was in SETTLED, f"a new attempt of a run that is {was}"
        assert (now, new["attempt"]) == (Status.QUEUED, old["attempt"] + 1)
        assert new["fence"] > old["fence"], "a new attempt kept the fence"
        return
    assert new["last_seq"] >= old["last_seq"], "the log became shorter"
    assert new["wakes"] >= old["wakes"], "a wake-up was forgotten"
    ended_now = new["terminal_at"] != old["terminal_at"]
    if ended_now or (old["lease_owner"] and new["lease_owner"] != old["lease_owner"]):
        assert new["fence"] > old["fence"], "a claim was ended or handed over with its fence"
    if old["terminal_at"] is not None:
        assert not ended_now, "it ended twice"
        assert new["fence"] == old["fence"], "something went on after the end"
    if old["cancel_id"] is not None:
        kept = ("cancel_id", "cancel_reason", "cancel_requested_at", "cancel_by_id")
        assert all(old[name] == new[name] for name in kept), "the first stop did not stay"
    _check_decided(before, after)
    _check_begun(before, after)
    _check_taken(before, after)


def _check_begun(before: Rows, after: Rows) -> None:
    """A call that began in this commit began by its holder, in time, and beside nothing that is unknown."""
    begun = [fence for step, fence in after["begun"].items() if before["begun"].get(step) != fence]
    if not begun:
        return
    assert begun == [after["run"]["fence"]] * len(begun), "a stale worker began a step"
    assert not before["is_overdue"], "something began after the deadline"
    assert not before["run"]["unknown_ops"], "something began beside an unknown outcome"


def _check_taken(before: Rows, after: Rows) -> None:
    """A live lease is taken by nobody but its holder or an end; a client is gone only when nobody is connected."""
    old, new = before["run"], after["run"]
    if before["has_live_lease"] and new["lease_owner"] != old["lease_owner"]:
        told = [
            e["data"]["reason"] for e in after["events"] if e["type"] == "claim.lost" and e["seq"] > old["last_seq"]
        ]
        assert new["lease_owner"] is None, "a live lease was taken by a claim"
        assert "lease_expired" not in told, "a live lease was called expired"
    if old["cancel_id"] is None and new["cancel_reason"] == "client_gone":
        assert not old["control_count"], "the client was called gone while it is connected"


def _check_decided(before: Rows, after: Rows) -> None:
    states = {operation["id"]: operation["state"] for operation in after["operations"]}
    for operation in before["operations"]:
        old, new = OperationState(operation["state"]), states[operation["id"]]
        if old in HAPPENED:
            assert new == old, f"what had happened became {new}"
        if operation["contradicted"] and old != OperationState.DISPATCHED:
            assert new != OperationState.DISPATCHED, "it was sent again against a receipt"
        if old == OperationState.UNKNOWN:
            assert new != OperationState.DISPATCHED, "it was sent again while nobody knew what became of it"


def check_tree(runs: Iterable[Rows]) -> None:
    """Assert what holds between a run and those below it: a stop takes them all, in one commit."""
    by_id = {rows["run"]["id"]: rows["run"] for rows in runs}
    for run in by_id.values():
        parent = by_id.get(run["parent_id"])
        if parent is not None and parent["cancel_id"] is not None and run["status"] not in ENDED:
            assert run["cancel_id"] is not None, "the stop left a child out"


def check_effects(rows: Rows, landed: Mapping[str, int]) -> None:
    """Assert that each operation took effect at most once, and that the ledger says of it what is true.

    An operator who was wrong about the past is found out by a late receipt: then the flag is what must be there.

    Args: landed: how often each key took effect at the target, when nothing can land any more. Evidence against a
    decision is flagged and flips nothing: what is `contradicted` may be wrong.
    """
    for operation in rows["operations"]:
        key, state, count = operation["key"], OperationState(operation["state"]), landed.get(operation["key"], 0)
        if operation["contradicted"] and operation["verdict"]:
            continue
        assert count <= 1, f"{key} took effect {count} times"
        assert not (count and state in DID_NOT), f"{key} is {state}, and it happened"
        assert count or state not in HAPPENED, f"{key} is {state}, and it never happened"
    known = {operation["key"] for operation in rows["operations"]}
    own = {key for key in landed if key.startswith(rows["run"]["id"].replace("-", ""))}
    assert own <= known, "something happened that the ledger never heard of"
