"""Leave room in the pages of hot rows, so that an update of a run stays in its page and touches no index."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_first_tables")]
    operations = [
        migrations.RunSQL("alter table runs_run set (fillfactor = 50)", "alter table runs_run reset (fillfactor)"),
    ]
