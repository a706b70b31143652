"""Evidence and the audit are only added to: nobody changes a row or takes one away, retention neither."""

from django.db import migrations

ADD = """
create function runs_only_added() returns trigger language plpgsql as $$
begin
  raise exception using errcode = 'check_violation', constraint = tg_name, table = tg_table_name,
    message = format('a row of %s is neither changed nor deleted: "%s"', tg_table_name, tg_name);
end $$;
create trigger evidence_only_added before update or delete on runs_evidence
  for each row execute function runs_only_added();
create trigger audit_only_added before update or delete on runs_auditentry
  for each row execute function runs_only_added()"""
NO_MORE = """
drop trigger evidence_only_added on runs_evidence;
drop trigger audit_only_added on runs_auditentry;
drop function runs_only_added()"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0014_one_end_one_pilot")]

    operations = [migrations.RunSQL(ADD, NO_MORE)]
