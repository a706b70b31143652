"""Events, the outbox, and the connections whose presence matters to a run."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.run import Run


class Event(models.Model):
    """One past fact of an attempt. `data` is the frame without its seq (runs/frames.py)."""

    pk = models.CompositePrimaryKey("stream_id", "seq")
    stream_id = models.UUIDField()
    seq = models.BigIntegerField()
    type = models.CharField(max_length=40)
    data = models.TextField()

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"


class OutboxRow(models.Model):
    """What must still happen after a commit: ring the queue for a run. Deleted once it was done."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    due_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # A second wish to advance the same run, while the first is still here, says nothing new.
            models.UniqueConstraint(fields=["run", "kind"], name="outbox_once"),
            models.CheckConstraint(condition=Q(kind="advance"), name="outbox_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.run_id}"


class ControlConnection(models.Model):
    """One connection whose loss may stop the run. Live until it is closed or its presence lease has passed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="control_connections")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    generation = models.BigIntegerField()
    presence_until = models.DateTimeField()
    attached_at = models.DateTimeField(db_default=Now())
    is_live = models.BooleanField(default=True)  # counted in run.control_count
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["presence_until"], name="control_live", condition=Q(is_live=True)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "generation"], name="control_generation_once"),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True) | Q(is_live=False), name="control_closed_is_not_live"
            ),
        ]

    def __str__(self) -> str:
        return f"connection {self.generation} of {self.run_id}"
