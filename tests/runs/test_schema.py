"""The schema refuses what no code path may do: each named constraint is violated once."""

import pytest
from django.db import IntegrityError, connection, transaction

from runs.ids import new_id
from runs.models import Operation, OutboxRow, Question, Run, Step
from tests.builders import a_claim, a_dispatch, a_run

WRONG_RUNS = {
    "run_status_known|run_ended_iff_terminal_at": "status = 'paused'",
    "run_ended_iff_terminal_at": "status = 'completed', lease_until = null, lease_owner = null",
    "run_lease_all_or_none": "lease_until = null",
    "run_lease_only_while_claimable": "status = 'queued'",
    "run_cancel_all_or_none": "cancel_reason = 'user'",
    "run_cancel_all_or_none|": (
        "status = 'cancel_requested', cancel_id = gen_random_uuid(), cancel_requested_at = now()"
    ),
    "run_stops_only_when_asked": "status = 'cancelling'",
    "run_asked_to_stop_never_goes_on": (
        "cancel_id = gen_random_uuid(), cancel_reason = 'user', cancel_requested_at = now()"
    ),
    "run_waiting_iff_waiting_for": "waiting_for = 'input'",
    "run_waiting_iff_waiting_for|": "status = 'waiting', lease_until = null, lease_owner = null",
    "run_open_ops_only_while_working": (
        "open_ops = 1, status = 'completed', terminal_at = now(), lease_until = null, lease_owner = null"
    ),
    "run_settled_has_no_unknown": (
        "unknown_ops = 1, status = 'completed', terminal_at = now(), lease_until = null, lease_owner = null"
    ),
    "run_counters_not_negative": "wakes = -1",
    "run_floor_in_log": "floor_seq = last_seq + 2",
    "run_grace_iff_policy": "on_disconnect = 'grace'",
}


@pytest.mark.parametrize("name", WRONG_RUNS)
def test_the_run_row_refuses(owner, name):
    run = a_run(owner)
    a_claim(run)
    with pytest.raises(IntegrityError, match=name.rstrip("|")), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"update runs_run set {WRONG_RUNS[name]} where id = %s", [run.pk])


WRONG_ROWS = {
    "runs_event_pkey": "insert into runs_event select * from runs_event limit 1",
    "attempt_number_once": "insert into runs_attempt (stream_id, run_id, number, ended_at, status) "
    "select gen_random_uuid(), run_id, number, now(), 'failed' from runs_attempt limit 1",
    "attempt_one_live": "insert into runs_attempt (stream_id, run_id, number) "
    "select gen_random_uuid(), run_id, 2 from runs_attempt limit 1",
    "attempt_ended_iff_status": "update runs_attempt set status = 'completed'",
    "attempt_ended_iff_status|": "update runs_attempt set ended_at = now()",
    "step_path_once": "insert into runs_step "
    "(id, run_id, stream_id, path, kind, name, arguments, digest, state, fence) "
    "select gen_random_uuid(), run_id, stream_id, path, kind, name, arguments, digest, state, fence from runs_step",
    "step_kind_known": "update runs_step set kind = 'thought'",
    "step_state_known": "update runs_step set state = 'lost', finished_at = now()",
    "step_open_iff_unfinished": "update runs_step set state = 'finished'",
    "operation_state_known": "update runs_operation set state = 'maybe'",
    "operation_effect_known": "update runs_operation set effect = 'none'",
    "operation_sent_has_permit": "update runs_operation set nonce = null",
    "outbox_once": "insert into runs_outboxrow (run_id, kind) select run_id, kind from runs_outboxrow",
    "outbox_kind_known": "update runs_outboxrow set kind = 'mail'",
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_the_other_tables_refuse(owner, name):
    run = a_run(owner)
    a_dispatch(run, a_claim(run))
    OutboxRow.objects.create(run=run, kind="advance")
    with pytest.raises(IntegrityError, match=name.rstrip("|")), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(WRONG_ROWS[name])


def test_an_operation_key_exists_once(owner):
    run = a_run(owner)
    sent = a_dispatch(run, a_claim(run))
    operation = Operation.objects.get(pk=sent.operation_id)
    operation.pk = new_id()
    with pytest.raises(IntegrityError, match="operation_key_once"), transaction.atomic():
        operation.save(force_insert=True)


def test_a_question_is_open_until_it_is_closed(owner):
    run = a_run(owner)
    sent = a_dispatch(run, a_claim(run))
    step = Step.objects.get(pk=sent.step_id)
    with pytest.raises(IntegrityError, match="question_open_iff_not_closed"), transaction.atomic():
        Question.objects.create(run=run, step=step, prompt="?", schema={}, state="answered", expires_at=run.created_at)


def test_one_idempotency_key_makes_one_run(owner):
    run = a_run(owner, idempotency_key="k", idempotency_digest="d")
    other = a_run(owner)
    with pytest.raises(IntegrityError, match="run_once_per_idempotency_key"), transaction.atomic():
        Run.objects.filter(pk=other.pk).update(idempotency_key=run.idempotency_key)
