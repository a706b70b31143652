"""Undoing an effect: an action of its own beside the operation that it is about, with its own key and state.

It counts in no counter of the run and never changes the run's status.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.ledger import Operation
from runs.states import UNDONE_FOR_NOTHING, OperationState


class Compensation(models.Model):
    """One try to undo one committed operation, asked for by a person. Dispatched once."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="compensations")
    key = models.CharField(max_length=320)  # comp:<operation key>#<number>
    number = models.IntegerField()
    state = models.CharField(max_length=12, default=OperationState.INTENDED.value)
    version = models.BigIntegerField(default=1)
    requested_at = models.DateTimeField(db_default=Now())
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    note = models.TextField()
    dispatched_at = models.DateTimeField(null=True)
    horizon_at = models.DateTimeField(null=True)  # whoever sent it has an answer by then, or none will come
    finished_at = models.DateTimeField(null=True)
    receipt = models.JSONField(null=True)
    settled_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    settle_note = models.TextField(default="", blank=True)

    class Meta:
        ordering = ["requested_at"]
        indexes = [
            models.Index(fields=["state"], name="compensation_open", condition=Q(state__in=["dispatched", "intended"])),
        ]
        constraints = [
            models.UniqueConstraint(fields=["key"], name="compensation_key_once"),
            models.UniqueConstraint(
                fields=["operation"],
                name="compensation_one_that_counts",
                condition=~Q(state__in=sorted(s.value for s in UNDONE_FOR_NOTHING)),
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in OperationState]), name="compensation_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="intended", dispatched_at__isnull=True, horizon_at__isnull=True)
                | (~Q(state="intended") & Q(dispatched_at__isnull=False, horizon_at__isnull=False)),
                name="compensation_sent_iff_dispatched",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["dispatched", "intended", "unknown"], finished_at__isnull=True)
                | (~Q(state__in=["dispatched", "intended", "unknown"]) & Q(finished_at__isnull=False)),
                name="compensation_over_iff_finished",
            ),
        ]

    def __str__(self) -> str:
        return self.key
