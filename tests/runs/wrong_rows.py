"""Rows that the schema refuses, by the name of the rule that each of them breaks.

A statement breaks its own rule, and no other one that is looked at before it. %(name)s is the id of what
`every_row.make_rows` has made under that name.
"""

from django.db import models

from runs.models import (
    ApiToken,
    Artifact,
    Attempt,
    ControlConnection,
    Document,
    Membership,
    NextMessage,
    Operation,
    OutboxRow,
    Passage,
    Question,
    Shell,
    ShellTarget,
    Step,
    Tenant,
)


def change(name: str, *columns: str, table: str = "run") -> list[str]:
    """Update one row, once for each of these."""
    return [f"update runs_{table} set {one} where id = %({name})s" for one in columns]


def change_all(table: str, *columns: str) -> list[str]:
    return [f"update runs_{table} set {one}" for one in columns]


def add_again(model: type[models.Model], **other: str) -> list[str]:
    """Copy what is there under a new key, with these columns."""
    key = model._meta.pk
    columns = {f.column: f.column for f in model._meta.concrete_fields if f is not key}
    if not isinstance(key, models.AutoField):
        columns[key.column] = "gen_random_uuid()"
    columns |= other
    table = model._meta.db_table
    return [f"insert into {table} ({', '.join(columns)}) select {', '.join(columns.values())} from {table}"]


def add_attempts(provenance: str, *, times: int = 1) -> str:
    """Write further attempts of a run: retry_of, created_by, reuse, idempotency_key, status, ended_at."""
    return f"""
        insert into runs_attempt
          (stream_id, run_id, number, retry_of_id, created_by_id, reuse, idempotency_key, status, ended_at)
        select gen_random_uuid(), id, 1 + n, {provenance}
        from (select id, stream_id, created_by_id as by from runs_run where id = %(done)s) r,
          generate_series(1, {times}) n"""


def undo(state: str, *, times: int = 1, key: str = "'k'", sent: bool = True, finished: bool | None = None) -> str:
    """Write compensations of the operation."""
    is_over = finished if finished is not None else state not in ("dispatched", "intended", "unknown")
    return f"""
        insert into runs_compensation (id, operation_id, key, number, state, version, requested_by_id, note,
          settle_note, dispatched_at, horizon_at, finished_at)
        select gen_random_uuid(), %(operation)s, {key}, n, '{state}', 1, %(user)s, '', '',
          {"now(), now()" if sent else "null, null"}, {"now()" if is_over else "null"}
        from generate_series(1, {times}) n"""


def tell(name: str, kind: str) -> str:
    """Record an event of a run, as decisions do."""
    return f"""
        with told as (update runs_run set last_seq = last_seq + 1 where id = %({name})s returning stream_id, last_seq)
        insert into runs_event (stream_id, seq, type, data) select stream_id, last_seq, '{kind}', '{{}}' from told"""


ENDS_CLAIM = "lease_until = null, lease_owner = null"
CANCEL = "cancel_id = gen_random_uuid(), cancel_reason = 'user', cancel_requested_at = now()"
NO_CANCEL = "cancel_id = null, cancel_reason = null, cancel_requested_at = null"
SAME_STEP = "parent_id, root_id, parent_step_id"

WRONG: dict[str, list[str]] = {
    # the run's row
    "run_asked_to_stop_never_goes_on": change("held", CANCEL),
    "run_budget_of_root": [*change("twin", "budget_tokens = 0"), *change("child", "budget_tokens = 5")],
    "run_cancel_all_or_none": [
        *change("held", "cancel_reason = 'user'"),
        *change("stopping", "cancel_reason = null", "cancel_requested_at = null", "cancel_reason = 'whim'"),
    ],
    "run_child_after_parent": change("child", "parent_id = id", "root_id = id"),
    "run_child_all_or_none": [
        *change("keyed", "root_id = id", "parent_id = %(twin)s, root_id = %(twin)s"),
        *change("child", "parent_step_id = null"),
    ],
    "run_child_once_per_step": change(
        "talking", f"({SAME_STEP}) = (select {SAME_STEP} from runs_run where id = %(child)s)"
    ),
    "run_completed_has_result": [
        *change("done", "has_result = false", "has_result = false, result = null"), *change("held", "result = '1'"),
    ],
    "run_counters_not_negative": change(
        "held", "open_ops = -1", "unknown_ops = -1", "control_count = -1", "wakes = -1", "open_children = -1",
        "deaths = -1",
    ),
    "run_ended_has_no_open_children": change("done", "open_children = 1"),
    "run_ended_iff_terminal_at": [*change("done", "terminal_at = null"), *change("held", "terminal_at = now()"),
                                  *change("twin", "status = 'paused'", "status = 'paused', terminal_at = now()")],
    "run_floor_in_log": change("held", "floor_seq = last_seq + 2", "floor_seq = 0"),
    "run_grace_iff_policy": change(
        "held", "on_disconnect = 'grace'", "grace_seconds = 1", "on_disconnect = 'grace', grace_seconds = -1",
        "on_disconnect = 'never'",
    ),
    "run_grace_only_while_alone": [
        *change("held", "grace_expires_at = now(), control_count = 1"),
        *(one for name in ("stopping", "done") for one in change(name, "grace_expires_at = now()")),
    ],
    "run_lease_all_or_none": change("held", "lease_until = null", "lease_owner = null"),
    "run_lease_only_while_claimable": change("twin", "lease_until = now(), lease_owner = 'w'"),
    "run_once_per_idempotency_key": change("twin", "idempotency_key = 'k'"),
    "run_one_active_per_conversation": change("twin", "conversation_id = %(talk)s, turn = 2"),
    "run_open_ops_only_while_working": change("done", "open_ops = 1"),
    "run_settled_has_no_unknown": change("done", "unknown_ops = 1"),
    "run_stopped_has_receipt": change(
        "stopped", "cancel_effects = null", "cancel_effects = 'null'", "cancel_effects = '{}'",
        """cancel_effects = '[{"path": "1", "outcome": "committed"}, {"path": "2", "outcome": "pending"}]'""",
    ),
    "run_stopping_has_deadline": change("stopping", "stop_deadline_at = null"),
    "run_stops_only_when_asked": change("held", "status = 'cancelling', stop_deadline_at = now()"),
    "run_tells_parent_only_its_end": [
        *change("done", "told_parent = 'settled'", "told_parent = 'doubt'"),
        *change("child", "told_parent = 'settled'", "told_parent = 'doubt'", "told_parent = 'heard'"),
    ],
    "run_timer_has_wake_at": change("asleep", "wake_at = null"),
    "run_tree_bounded": [*change("twin", "descendants = 101"), *change("child", "descendants = 1")],
    "run_turn_iff_conversation": change(
        "twin", "turn = 1", *(f"conversation_id = %(talk)s, turn = {turn}" for turn in ("null", "0"))
    ),
    "run_turn_once": change("done", "conversation_id = %(talk)s, turn = 1"),
    "run_waiting_iff_waiting_for": [
        *change("held", "waiting_for = 'input'"), *change("asleep", "waiting_for = null", "waiting_for = 'rain'"),
    ],
    # the run's row after what it was (runs/migrations/0013)
    "run_fence_never_goes_back": change("held", "fence = fence - 1"),
    "run_claim_takes_a_fence": [
        *change("held", "lease_owner = 'thief'"), *change("stopping", ENDS_CLAIM),
        *change("twin", "status = 'running', lease_owner = 'w', lease_until = now()"),
    ],
    "run_retry_only_of_settled": [
        one for name in ("twin", "held", "asleep", "stopping") for one in change(name, "attempt = 2")
    ],
    "run_log_never_shrinks": change("held", "last_seq = last_seq - 1"),
    "run_first_stop_stays": [
        *change("stopping", "cancel_id = gen_random_uuid()", f"{NO_CANCEL}, status = 'running'"),
        *change("stopped", "cancel_id = gen_random_uuid()"),
    ],
    "run_ended_stays_ended": change("done", "terminal_at = null, status = 'running'"),
    "run_never_queued_again": change("asleep", "status = 'queued', waiting_for = null"),
    "run_only_epilogue_after_end": [tell("done", kind) for kind in ("text.delta", "run.waiting", "claim.started")],
    # attempts and their logs
    "attempt_number_once": add_again(Attempt, ended_at="now()", status="'failed'"),
    "attempt_one_live": [add_attempts("stream_id, by, 'finished', null, null, null", times=2)],
    "attempt_once_per_idempotency_key": [add_attempts("stream_id, by, 'finished', 'k', 'failed', now()", times=2)],
    "attempt_retry_has_provenance": [
        *change_all("attempt", "reuse = 'nothing'", "number = 2"),
        *(add_attempts(f"{three}, null, null, null") for three in (
            "null, null, null", "stream_id, by, null", "null, by, 'nothing'", "stream_id, null, 'nothing'",
            "stream_id, by, 'x'",
        )),
    ],
    "attempt_ended_iff_status": change_all("attempt", "status = 'completed'", "status = null", "status = 'running'"),
    "event_one_end": [tell("done", "run.completed"), tell("done", "run.failed"), tell("stopped", "run.cancelled"),
                      f"{tell('held', 'run.failed')}; {tell('held', 'run.needs_reconciliation')}"],
    "checkpoint_of_something": change_all("checkpoint", "seq = 0", "kept_bytes = -1"),
    "checkpoint_covers_deleted": change_all("checkpoint", "floor_seq = 7", "floor_seq = 0"),
    "checkpoint_covers_compacted": change_all("checkpoint", "compacted_seq = 6", "compacted_seq = -1"),
    "outbox_once": add_again(OutboxRow),
    "outbox_kind_known": change_all("outboxrow", "kind = 'mail'"),
    # steps and the ledger
    "step_path_once": add_again(Step),
    "step_kind_known": change_all("step", "kind = 'thought'"),
    "step_state_known": change_all("step", "state = 'lost', finished_at = now()"),
    "step_open_iff_unfinished": change_all(
        "step", "state = 'finished'", "finished_at = now()",
        "state = 'finished', finished_at = now(), message_id = gen_random_uuid()",
    ),
    "operation_key_once": add_again(Operation),
    "operation_state_known": change_all("operation", "state = 'maybe'"),
    "operation_effect_known": change_all("operation", "effect = 'none'"),
    "operation_sent_has_permit": change_all("operation", "nonce = null", "dispatched_at = null"),
    "evidence_only_added": [*change_all("evidence", "happened = false"), "delete from runs_evidence"],
    "compensation_key_once": [undo("failed", times=2)],
    "compensation_one_that_counts": [
        undo(state, times=2, key="n::text") for state in ("dispatched", "unknown", "succeeded", "confirmed")
    ],
    "compensation_state_known": [undo("maybe")],
    "compensation_sent_iff_dispatched": [undo("dispatched", sent=False), undo("intended")],
    "compensation_over_iff_finished": [undo("succeeded", finished=False), undo("unknown", finished=True)],
    "question_open_iff_not_closed": change_all("question", "state = 'answered'", "closed_at = now()"),
    "question_state_known": change_all("question", "state = 'lost', closed_at = now()"),
    "runs_question_step_id_key": add_again(Question),
    # connections, conversations, shells
    "control_generation_once": add_again(ControlConnection, is_pilot="false"),
    "control_closed_is_not_live": change_all("controlconnection", "closed_at = now()"),
    "control_one_pilot": [
        *add_again(ControlConnection, generation="generation + 1"),
        *add_again(ControlConnection, generation="generation + 1", is_live="false"),
    ],
    "conversation_turns_not_negative": change_all("conversation", "turns = -1"),
    "next_message_once_per_idempotency_key": add_again(NextMessage),
    "next_message_started_is_not_withdrawn": change_all("nextmessage", "run_id = %(done)s, withdrawn_at = now()"),
    "next_message_grace_iff_policy": change_all(
        "nextmessage", "on_disconnect = 'grace'", "grace_seconds = 1", "on_disconnect = 'grace', grace_seconds = -1"
    ),
    "runs_nextmessage_run_id_key": ["; ".join(add_again(NextMessage, idempotency_key="null", run_id="%(done)s") * 2)],
    "shell_size_possible": change_all("shell", "rows = 0", "cols = 0", "rows = 1001", "cols = 1001"),
    "shell_opener_known": change_all("shell", "opened_by = 'nobody'"),
    "shell_taken_from_agent_only": change_all("shell", "held_by_id = %(user)s"),
    "shell_exit_only_at_end": change_all("shell", "exit_code = 0", "signal = 9"),
    "shell_exits_one_way": change_all("shell", "ended_at = now(), exit_code = 0, signal = 9"),
    "runs_shell_run_id_key": add_again(Shell),
    "shell_target_kind_known": change_all("shelltarget", "kind = 'telnet', host = 'h', username = 'u', host_key = 'k'"),
    "shell_target_ssh_has_address": change_all(
        "shelltarget", "kind = 'ssh'", "kind = 'ssh', host = 'h', username = 'u'",
        "kind = 'ssh', host = 'h', host_key = 'k'", "kind = 'ssh', username = 'u', host_key = 'k'",
    ),
    "shell_target_port_exists": change_all("shelltarget", "port = 0", "port = 65536"),
    "shell_target_role_may_write": change_all("shelltarget", "min_role = 'viewer'"),
    "shell_target_limits_positive": change_all(
        "shelltarget", "memory_mb = 0", "processes = 0", "open_files = 0", "cpu_seconds = 0"
    ),
    "shell_target_name_once": add_again(ShellTarget),
    "runs_shelltarget_people_shelltarget_id_user_id_291d8386_uniq": [
        "insert into runs_shelltarget_people (shelltarget_id, user_id) select shelltarget_id, user_id "
        "from runs_shelltarget_people"
    ],
    # people and files
    "audit_only_added": [*change_all("auditentry", "detail = '{}'"), "delete from runs_auditentry"],
    "membership_once": add_again(Membership),
    "membership_role_known": change_all("membership", "role = 'king'"),
    "runs_tenant_slug_key": add_again(Tenant),
    "runs_apitoken_digest_key": add_again(ApiToken),
    "document_once": add_again(Document),
    "document_size_not_negative": change_all("document", "size_bytes = -1"),
    "passage_ordinal_once": add_again(Passage),
    "artifact_name_once": add_again(Artifact),
}  # fmt: skip
