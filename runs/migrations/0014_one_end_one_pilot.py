"""A log has one end at most (RULES H12), and a shell one pilot."""

from django.db import migrations, models
from django.db.models import Q

from runs.migrations._checking import look_for

ENDS = ["run.cancelled", "run.completed", "run.failed", "run.needs_reconciliation"]
WRONG = {
    "event_one_end": f"""
        select stream_id from runs_event where type in ({", ".join(f"'{kind}'" for kind in ENDS)})
        group by stream_id having count(*) > 1""",
    "control_one_pilot": """
        select run_id from runs_controlconnection where is_pilot and closed_at is null
        group by run_id having count(*) > 1""",
}


class Migration(migrations.Migration):
    dependencies = [("runs", "0013_what_becomes_of_a_run")]

    operations = [
        look_for(WRONG),
        migrations.AddConstraint(
            "event",
            models.UniqueConstraint(fields=["stream_id"], name="event_one_end", condition=Q(type__in=ENDS)),
        ),
        migrations.AddConstraint(
            "controlconnection",
            models.UniqueConstraint(
                fields=["run"], name="control_one_pilot", condition=Q(is_pilot=True, closed_at__isnull=True)
            ),
        ),
    ]
