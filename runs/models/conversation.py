"""Conversations: runs that follow one another, and the messages that wait for their turn."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.identity import Tenant


class Conversation(models.Model):
    """Runs that follow one another; at most one of them is active. `turns` counts them: it is the newest one's turn."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="conversations")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    turns = models.IntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=Q(turns__gte=0), name="conversation_turns_not_negative"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.pk.hex}"


class NextMessage(models.Model):
    """A message that came while a run was active: it becomes a run in the transaction that ends that one."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="next_messages")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    agent = models.CharField(max_length=100)
    title = models.CharField(max_length=300)
    input = models.JSONField()
    metadata = models.JSONField(default=dict)
    budget_tokens = models.BigIntegerField(null=True)
    deadline_seconds = models.FloatField()  # counts from the start of its run
    on_disconnect = models.CharField(max_length=10)
    grace_seconds = models.FloatField(null=True)
    idempotency_key = models.CharField(max_length=255, null=True)
    idempotency_digest = models.CharField(max_length=64, null=True)
    created_at = models.DateTimeField(db_default=Now())
    run = models.OneToOneField("runs.Run", on_delete=models.CASCADE, null=True, related_name="came_from")
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(
                fields=["conversation", "created_at"],
                name="next_message_waiting",
                condition=Q(run__isnull=True, withdrawn_at__isnull=True),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["created_by", "tenant", "idempotency_key"],
                name="next_message_once_per_idempotency_key",
                condition=Q(idempotency_key__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(run__isnull=True) | Q(withdrawn_at__isnull=True),
                name="next_message_started_is_not_withdrawn",
            ),
            models.CheckConstraint(
                condition=Q(on_disconnect="continue", grace_seconds__isnull=True)
                | Q(on_disconnect="grace", grace_seconds__isnull=False, grace_seconds__gte=0),
                name="next_message_grace_iff_policy",
            ),
        ]

    def __str__(self) -> str:
        return self.title
