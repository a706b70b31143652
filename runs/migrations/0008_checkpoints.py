"""Checkpoints: the view of a stream at a seq, below which events may be joined or deleted."""

import django.db.models.functions.datetime
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.deletion import CASCADE


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_conversations")]
    operations = [
        migrations.AddField("run", "is_held", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("attempt", "is_kept", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("attempt", "events_expired_at", models.DateTimeField(null=True)),
        migrations.AddIndex(
            "attempt",
            models.Index(
                condition=Q(ended_at__isnull=False, is_kept=False), fields=["ended_at"], name="attempt_to_keep"
            ),
        ),
        migrations.AddIndex(
            "attempt",
            models.Index(
                condition=Q(ended_at__isnull=False, events_expired_at__isnull=True),
                fields=["ended_at"],
                name="attempt_to_expire",
            ),
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "stream",
                    models.OneToOneField(
                        "runs.attempt", on_delete=CASCADE, primary_key=True, related_name="checkpoint", serialize=False
                    ),
                ),
                ("seq", models.BigIntegerField()),
                ("fold_version", models.IntegerField()),
                ("view", models.TextField()),
                ("floor_seq", models.BigIntegerField(db_default=1)),
                ("compacted_seq", models.BigIntegerField(db_default=0)),
                ("compact_at", models.DateTimeField(null=True)),
                ("kept_bytes", models.BigIntegerField()),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(compact_at__isnull=False), fields=["compact_at"], name="checkpoint_to_compact"
                    ),
                    models.Index(fields=["fold_version"], name="checkpoint_by_fold"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=Q(kept_bytes__gte=0, seq__gte=1), name="checkpoint_of_something"),
                    models.CheckConstraint(
                        condition=Q(floor_seq__gte=1, floor_seq__lte=F("seq") + 1), name="checkpoint_covers_deleted"
                    ),
                    models.CheckConstraint(
                        condition=Q(compacted_seq__gte=0, compacted_seq__lte=F("seq")),
                        name="checkpoint_covers_compacted",
                    ),
                ],
            },
        ),
    ]
