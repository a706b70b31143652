"""Who watches a shell has a row with a presence lease, as who is in control has."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import runs.ids


class Migration(migrations.Migration):
    dependencies = [("runs", "0011_shells_taken_over"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="ShellViewer",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runs.ids.new_id, editable=False, primary_key=True, serialize=False),
                ),
                ("presence_until", models.DateTimeField()),
                ("attached_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shell_viewers", to="runs.run"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["attached_at", "id"],
                "indexes": [models.Index(fields=["presence_until"], name="viewer_presence")],
            },
        ),
    ]
