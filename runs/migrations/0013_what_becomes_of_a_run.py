"""What an update may make of a run's row, and what an end, a stop, a timer and a grace need there (RULES H1, H12, H17).

One trigger, after the statement, so that it sees the row as it was and the events of that statement. Not CHECKs, for
what each of these costs: measured, 8 µs of every update, and this trigger none that was seen in the usual one, which
leaves it at once. Three CHECKs that others include are taken away.
"""

from django.db import migrations, models
from django.db.models import Q

from runs.migrations._checking import look_for

NEEDS = {
    "run_timer_has_wake_at": "waiting_for = 'timer' and wake_at is null",
    "run_stopping_has_deadline": "status in ('cancel_requested', 'cancelling') and stop_deadline_at is null",
    # "Stopped" is a proof: each thing that the stop met has an outcome, and none of them is still to come.
    "run_stopped_has_receipt": """cancel_id is not null and terminal_at is not null and (cancel_effects is null
        or not cancel_effects @> '[]' or cancel_effects @> '[{"outcome": "pending"}]')""",
    "run_completed_has_result": "not has_result and (status = 'completed' or result is not null)",
    "run_grace_only_while_alone": """grace_expires_at is not null
        and (control_count <> 0 or status not in ('queued', 'running', 'waiting'))""",
}
RULES = """
create function runs_run_rules() returns trigger language plpgsql as $$
declare
  rule text;
begin
  if new.status = old.status and new.attempt = old.attempt and new.fence = old.fence and new.last_seq >= old.last_seq
    and new.lease_owner is not distinct from old.lease_owner and old.cancel_id is null and new.cancel_id is null
    and new.terminal_at is null and old.terminal_at is null and new.grace_expires_at is null
    and new.waiting_for is null and new.result is null
  then
    return null;  -- nothing here that a rule speaks of
  end if;
  rule := case
    when new.fence < old.fence then 'run_fence_never_goes_back'
    when new.lease_owner is distinct from old.lease_owner and new.fence = old.fence then 'run_claim_takes_a_fence'
    when new.attempt <> old.attempt and old.status not in ('cancelled', 'completed', 'failed')
      then 'run_retry_only_of_settled'
    when new.attempt = old.attempt then case
      when new.last_seq < old.last_seq then 'run_log_never_shrinks'
      when old.cancel_id is not null and new.cancel_id is distinct from old.cancel_id then 'run_first_stop_stays'
      when old.terminal_at is not null and new.terminal_at is null then 'run_ended_stays_ended'
      when new.status = 'queued' and old.status <> 'queued' then 'run_never_queued_again'
    end
  end;
  if rule is null then
    rule := case
      when new.waiting_for = 'timer' and new.wake_at is null then 'run_timer_has_wake_at'
      when new.status in ('cancel_requested', 'cancelling') and new.stop_deadline_at is null
        then 'run_stopping_has_deadline'
      when new.cancel_id is not null and new.terminal_at is not null and (new.cancel_effects is null
        or not new.cancel_effects @> '[]' or new.cancel_effects @> '[{"outcome": "pending"}]')
        then 'run_stopped_has_receipt'
      when not new.has_result and (new.status = 'completed' or new.result is not null) then 'run_completed_has_result'
      when new.grace_expires_at is not null
        and (new.control_count <> 0 or new.status not in ('queued', 'running', 'waiting'))
        then 'run_grace_only_while_alone'
    end;
  end if;
  if rule is null and old.terminal_at is not null and new.attempt = old.attempt and new.last_seq > old.last_seq then
    perform from runs_event e where e.stream_id = new.stream_id and e.seq > old.last_seq
      and e.type not in ('child.settled', 'operation.late_receipt', 'operation.settled', 'run.reconciled')
      and e.type not like 'compensation.%';
    if found then
      rule := 'run_only_epilogue_after_end';
    end if;
  end if;
  if rule is not null then
    raise exception using errcode = 'check_violation', constraint = rule, table = 'runs_run',
      message = format('run %s breaks "%s"', new.id, rule);
  end if;
  return null;
end $$;
create trigger run_rules after insert or update on runs_run for each row execute function runs_run_rules()"""
NO_MORE = "drop trigger run_rules on runs_run; drop function runs_run_rules()"


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_shell_viewers")]

    operations = [
        look_for({rule: f"select id from runs_run where {wrong}" for rule, wrong in NEEDS.items()}),
        migrations.RemoveConstraint("run", "run_status_known"),
        migrations.RemoveConstraint("run", "run_open_children_not_negative"),
        migrations.RemoveConstraint("run", "run_deaths_not_negative"),
        migrations.RemoveConstraint("run", "run_counters_not_negative"),
        migrations.AddConstraint(
            "run",
            models.CheckConstraint(
                condition=Q(open_ops__gte=0, unknown_ops__gte=0, control_count__gte=0, wakes__gte=0)
                & Q(open_children__gte=0, deaths__gte=0),
                name="run_counters_not_negative",
            ),
        ),
        migrations.RunSQL(RULES, NO_MORE),
    ]
