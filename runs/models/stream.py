"""Events, the outbox, and the connections whose presence matters to a run."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.run import Attempt, Run
from runs.states import TERMINAL_EVENT


class Event(models.Model):
    """One past fact of an attempt. `data` is the frame without its seq (runs/frames.py)."""

    pk = models.CompositePrimaryKey("stream_id", "seq")
    stream_id = models.UUIDField()
    seq = models.BigIntegerField()
    type = models.CharField(max_length=40)
    data = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["stream_id"], name="event_one_end", condition=Q(type__in=sorted(TERMINAL_EVENT.values()))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.type}"


class Checkpoint(models.Model):
    """The folded view of a stream at a seq, and what became of the events below it.

    Its floor is the stream's; runs_run.floor_seq repeats it for the current stream, where readers see it.
    """

    stream = models.OneToOneField(Attempt, primary_key=True, on_delete=models.CASCADE, related_name="checkpoint")
    seq = models.BigIntegerField()
    fold_version = models.IntegerField()  # runs.fold.FOLD_VERSION of the fold that made the view
    view = models.TextField()
    floor_seq = models.BigIntegerField(db_default=1)  # the events below are deleted
    compacted_seq = models.BigIntegerField(db_default=0)  # the deltas up to here are joined where they can be
    compact_at = models.DateTimeField(null=True)  # when to look for more of them
    kept_bytes = models.BigIntegerField()  # of the events up to seq that are not deleted
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["compact_at"], name="checkpoint_to_compact", condition=Q(compact_at__isnull=False)),
            models.Index(fields=["fold_version"], name="checkpoint_by_fold"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(seq__gte=1, kept_bytes__gte=0), name="checkpoint_of_something"),
            # Whatever is deleted or joined is in the view (RULES H18).
            models.CheckConstraint(
                condition=Q(floor_seq__gte=1, floor_seq__lte=F("seq") + 1), name="checkpoint_covers_deleted"
            ),
            models.CheckConstraint(
                condition=Q(compacted_seq__gte=0, compacted_seq__lte=F("seq")), name="checkpoint_covers_compacted"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stream_id} at {self.seq}"


class OutboxRow(models.Model):
    """What must still happen after a commit: ring the queue for a run, or tell its parent that it has ended.

    Deleted once it was done.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    due_at = models.DateTimeField(db_default=Now())
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            # A second wish to advance the same run, while the first is still here, says nothing new.
            models.UniqueConstraint(fields=["run", "kind"], name="outbox_once"),
            models.CheckConstraint(condition=Q(kind__in=["advance", "child"]), name="outbox_kind_known"),
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
    is_pilot = models.BooleanField(db_default=False)  # of the run's shell: one at a time is in control
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["presence_until"], name="control_live", condition=Q(is_live=True)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "generation"], name="control_generation_once"),
            models.UniqueConstraint(
                fields=["run"], name="control_one_pilot", condition=Q(is_pilot=True, closed_at__isnull=True)
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True) | Q(is_live=False), name="control_closed_is_not_live"
            ),
        ]

    def __str__(self) -> str:
        return f"connection {self.generation} of {self.run_id}"
