"""Conversations: runs that follow one another, at most one of them active, and the messages that wait."""

from typing import Any

import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q
from django.db.models.deletion import CASCADE, PROTECT

import runs.ids

_OPEN = ["queued", "running", "waiting", "cancel_requested", "cancelling"]


def _to(model: str, *, on_delete: Any = PROTECT, related_name: str = "+", null: bool = False) -> Any:
    return models.ForeignKey(model, on_delete=on_delete, related_name=related_name, null=null)


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_compensations"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Conversation",
            fields=[
                ("id", models.UUIDField(default=runs.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("turns", models.IntegerField(db_default=0, default=0)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", _to(settings.AUTH_USER_MODEL)),
                ("tenant", _to("runs.tenant", related_name="conversations")),
            ],
            options={
                "ordering": ["-created_at"],
                "constraints": [
                    models.CheckConstraint(condition=Q(turns__gte=0), name="conversation_turns_not_negative")
                ],
            },
        ),
        migrations.AddField("run", "conversation", _to("runs.conversation", null=True, related_name="runs")),
        migrations.AddField("run", "turn", models.IntegerField(null=True)),
        migrations.AddField("run", "history", models.JSONField(null=True)),
        migrations.AddConstraint(
            "run",
            models.UniqueConstraint(
                condition=Q(conversation__isnull=False, status__in=_OPEN),
                fields=("conversation",),
                name="run_one_active_per_conversation",
            ),
        ),
        migrations.AddConstraint(
            "run",
            models.UniqueConstraint(
                condition=Q(conversation__isnull=False), fields=("conversation", "turn"), name="run_turn_once"
            ),
        ),
        migrations.AddConstraint(
            "run",
            models.CheckConstraint(
                condition=Q(conversation__isnull=True, turn__isnull=True)
                | Q(conversation__isnull=False, turn__gte=1, turn__isnull=False),
                name="run_turn_iff_conversation",
            ),
        ),
        migrations.CreateModel(
            name="NextMessage",
            fields=[
                ("id", models.UUIDField(default=runs.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("agent", models.CharField(max_length=100)),
                ("title", models.CharField(max_length=300)),
                ("input", models.JSONField()),
                ("metadata", models.JSONField(default=dict)),
                ("budget_tokens", models.BigIntegerField(null=True)),
                ("deadline_seconds", models.FloatField()),
                ("on_disconnect", models.CharField(max_length=10)),
                ("grace_seconds", models.FloatField(null=True)),
                ("idempotency_key", models.CharField(max_length=255, null=True)),
                ("idempotency_digest", models.CharField(max_length=64, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("withdrawn_at", models.DateTimeField(null=True)),
                ("conversation", _to("runs.conversation", on_delete=CASCADE, related_name="next_messages")),
                ("created_by", _to(settings.AUTH_USER_MODEL)),
                ("tenant", _to("runs.tenant")),
                (
                    "run",
                    models.OneToOneField("runs.run", null=True, on_delete=CASCADE, related_name="came_from"),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
                "indexes": [
                    models.Index(
                        condition=Q(run__isnull=True, withdrawn_at__isnull=True),
                        fields=["conversation", "created_at"],
                        name="next_message_waiting",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(idempotency_key__isnull=False),
                        fields=("created_by", "tenant", "idempotency_key"),
                        name="next_message_once_per_idempotency_key",
                    ),
                    models.CheckConstraint(
                        condition=Q(run__isnull=True) | Q(withdrawn_at__isnull=True),
                        name="next_message_started_is_not_withdrawn",
                    ),
                    models.CheckConstraint(
                        condition=Q(grace_seconds__isnull=True, on_disconnect="continue")
                        | Q(grace_seconds__gte=0, grace_seconds__isnull=False, on_disconnect="grace"),
                        name="next_message_grace_iff_policy",
                    ),
                ],
            },
        ),
    ]
