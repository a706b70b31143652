"""One control connection at a time is the pilot of a run's shell; a page that shows the run is none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_shells")]

    operations = [
        migrations.AddField(
            model_name="controlconnection", name="is_pilot", field=models.BooleanField(db_default=False)
        ),
    ]
