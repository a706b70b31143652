"""What an attempt inherits of the ledger: operations that earlier attempts began, and which of them may be sent again.

A call is first looked for under its own key. One that was never made at its place inherits a committed operation with
its tool and arguments, unless a person asked for that one to be done again; each is inherited by one call only.
"""

from runs.decisions.core import Decision, Query, Row
from runs.states import OperationState

# A process that we ended has run, so its operation counts as succeeded; its call has no result all the same.
STOPPED = "o.is_process and coalesce((o.receipt ->> 'stopped')::boolean, false)"
FIND = """
select o.*, s.stream_id from runs_operation o join runs_step s on s.id = o.step_id
where o.key = %(key)s for no key update of o"""
INHERIT = f"""
select o.*, s.stream_id
from runs_operation o join runs_step s on s.id = o.step_id join runs_attempt a on a.stream_id = %(stream)s
where o.run_id = %(run)s and o.tool = %(tool)s and o.digest = %(digest)s and o.state in ('confirmed', 'succeeded')
  and s.stream_id <> %(stream)s and not ({STOPPED}) and (
    a.keys is null or not jsonb_exists(a.keys, split_part(o.key, '#', 1))
    or o.key in (select value from jsonb_each_text(a.keys)))
order by o.created_at, o.id limit 1 for no key update of o"""


def base_of(key: str) -> str:
    """Return the key of the call itself, whatever was done again under it."""
    return key.partition("#")[0]


def is_committed(operation: Row) -> bool:
    """Say whether the effect is there, so that doing it again would do it twice."""
    return operation["state"] in (OperationState.SUCCEEDED, OperationState.CONFIRMED) and not was_stopped(operation)


def was_stopped(operation: Row) -> bool:
    """Say whether it is a process that we ended: it has run, and its tree is proven gone."""
    return bool(operation["is_process"] and (operation["receipt"] or {}).get("stopped"))


def lock_operation(run: Row, key: str, tool: str, digest: str) -> Decision[Row | None]:
    """Lock the operation that a call stands for, with the stream of its newest step. None: the call is the first."""
    rows = yield Query(FIND, {"key": key})
    if not rows and run["attempt"] > 1 and "#" not in key:
        params = {"run": run["id"], "stream": run["stream_id"], "tool": tool, "digest": digest}
        rows = yield Query(INHERIT, params)
    return rows[0] if rows else None


def may_dispatch(operation: Row, fence: int, stream_id: object) -> bool:
    """Say whether an operation's own state allows a (further) dispatch by this fence, in the attempt of this stream.

    What evidence says against a decision bars the call until an operator has looked at it: it may have happened.
    """
    if operation["contradicted_at"] is not None:
        return False
    state, is_inherited = operation["state"], operation["stream_id"] != stream_id
    if state in (OperationState.INTENDED, OperationState.REFUTED):
        return True
    if state == OperationState.FAILED:
        return is_inherited or bool((operation["receipt"] or {}).get("retryable"))
    if state == OperationState.DISPATCHED:
        repeatable = operation["effect"] in ("read", "idempotent") and not operation["is_process"]
        return repeatable and (operation["fence"] < fence or bool(operation["gave_up"]))
    return is_inherited and state == OperationState.SUCCEEDED and was_stopped(operation)
