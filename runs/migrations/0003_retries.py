"""A retry says of which attempt it is, who asked for it and why, and what it reuses."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_run_rows_leave_room"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddField(
            "attempt",
            "retry_of",
            models.ForeignKey(
                "runs.attempt", null=True, on_delete=django.db.models.deletion.CASCADE, related_name="retries"
            ),
        ),
        migrations.AddField(
            "attempt",
            "created_by",
            models.ForeignKey(
                settings.AUTH_USER_MODEL, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+"
            ),
        ),
        migrations.AddField("attempt", "reason", models.CharField(blank=True, db_default="", max_length=1000)),
        migrations.AddField("attempt", "reuse", models.CharField(max_length=10, null=True)),
        migrations.AddField("attempt", "keys", models.JSONField(null=True)),
        migrations.AddField("attempt", "idempotency_key", models.CharField(max_length=255, null=True)),
        migrations.AddField("attempt", "idempotency_digest", models.CharField(max_length=64, null=True)),
        migrations.AddConstraint(
            "attempt",
            models.CheckConstraint(
                condition=Q(created_by__isnull=True, number=1, retry_of__isnull=True, reuse__isnull=True)
                | Q(
                    created_by__isnull=False,
                    number__gt=1,
                    retry_of__isnull=False,
                    reuse__in=["finished", "nothing"],
                    reuse__isnull=False,
                ),
                name="attempt_retry_has_provenance",
            ),
        ),
        migrations.AddConstraint(
            "attempt",
            models.UniqueConstraint(
                condition=Q(idempotency_key__isnull=False),
                fields=("run", "created_by", "idempotency_key"),
                name="attempt_once_per_idempotency_key",
            ),
        ),
    ]
