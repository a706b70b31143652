"""The run's row, where every race ends, and its attempts.

Columns are written by `runs.decisions` only. The constraints below are the invariants that no code path may
break, whatever a bug elsewhere does; tests/runs/test_schema.py violates each of them.
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.identity import Tenant
from runs.states import ENDED, SETTLED, CancelReason, Status

_STATUSES = [(s.value, s.value) for s in Status]
_OPEN = [s.value for s in Status if s not in ENDED]


class Run(models.Model):
    """One piece of work that somebody asked for."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="runs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    agent = models.CharField(max_length=100)
    title = models.CharField(max_length=300)
    input = models.JSONField()
    metadata = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=255, null=True)
    idempotency_digest = models.CharField(max_length=64, null=True)

    version = models.BigIntegerField(default=1)
    status = models.CharField(max_length=24, choices=_STATUSES, default=Status.QUEUED.value)
    attempt = models.IntegerField(default=1)
    stream_id = models.UUIDField(default=new_id)
    last_seq = models.BigIntegerField(default=0)
    floor_seq = models.BigIntegerField(default=1)

    fence = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=100, null=True)
    last_batch = models.BigIntegerField(default=0)
    last_batch_seq = models.BigIntegerField(default=0)  # first seq of that batch: a repeat is answered from here

    open_ops = models.IntegerField(default=0)
    unknown_ops = models.IntegerField(default=0)
    wakes = models.IntegerField(default=0)
    waiting_for = models.CharField(max_length=10, null=True)
    wake_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    terminal_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)

    cancel_id = models.UUIDField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_reason = models.CharField(max_length=20, null=True)
    cancel_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    cancel_note = models.CharField(max_length=1000, default="", blank=True)
    cancel_seen_at = models.DateTimeField(null=True)
    cancel_seen_by = models.CharField(max_length=100, null=True)
    cancel_seen_fence = models.BigIntegerField(null=True)
    cancel_effects = models.JSONField(null=True)  # the receipt, complete once the run has ended
    stop_deadline_at = models.DateTimeField(null=True)

    has_result = models.BooleanField(default=False)
    result = models.JSONField(null=True)
    error_code = models.CharField(max_length=60, null=True)
    error_message = models.TextField(null=True)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)

    on_disconnect = models.CharField(max_length=10, default="continue")  # continue | grace
    grace_seconds = models.FloatField(null=True)
    grace_expires_at = models.DateTimeField(null=True)
    control_count = models.IntegerField(default=0)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="run_list"),
            # The supervisor's sweep and the workers' parent read only runs that have not ended.
            models.Index(fields=["status", "lease_until"], name="run_open", condition=Q(status__in=_OPEN)),
            models.Index(fields=["lease_owner"], name="run_by_owner", condition=Q(lease_owner__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(status__in=[s.value for s in Status]), name="run_status_known"),
            models.CheckConstraint(
                condition=Q(status__in=_OPEN, terminal_at__isnull=True)
                | Q(status__in=sorted(s.value for s in ENDED), terminal_at__isnull=False),
                name="run_ended_iff_terminal_at",
            ),
            models.CheckConstraint(
                condition=Q(lease_until__isnull=True, lease_owner__isnull=True)
                | Q(lease_until__isnull=False, lease_owner__isnull=False),
                name="run_lease_all_or_none",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["running", "cancel_requested", "cancelling"]) | Q(lease_until__isnull=True),
                name="run_lease_only_while_claimable",
            ),
            models.CheckConstraint(
                condition=Q(cancel_id__isnull=True, cancel_requested_at__isnull=True, cancel_reason__isnull=True)
                | Q(
                    cancel_id__isnull=False,
                    cancel_requested_at__isnull=False,
                    cancel_reason__isnull=False,  # a CHECK that comes out NULL would pass
                    cancel_reason__in=[r.value for r in CancelReason],
                ),
                name="run_cancel_all_or_none",
            ),
            models.CheckConstraint(
                condition=Q(cancel_id__isnull=False) | ~Q(status__in=["cancel_requested", "cancelling", "cancelled"]),
                name="run_stops_only_when_asked",
            ),
            models.CheckConstraint(
                condition=Q(cancel_id__isnull=True)
                | Q(status__in=["cancel_requested", "cancelling", "cancelled", "needs_reconciliation"]),
                name="run_asked_to_stop_never_goes_on",
            ),
            models.CheckConstraint(
                condition=Q(status="waiting", waiting_for__isnull=False, waiting_for__in=["input", "timer"])
                | (~Q(status="waiting") & Q(waiting_for__isnull=True)),
                name="run_waiting_iff_waiting_for",
            ),
            models.CheckConstraint(
                condition=Q(open_ops=0) | Q(status__in=["running", "cancel_requested", "cancelling"]),
                name="run_open_ops_only_while_working",
            ),
            models.CheckConstraint(
                condition=Q(unknown_ops=0) | ~Q(status__in=sorted(s.value for s in SETTLED)),
                name="run_settled_has_no_unknown",
            ),
            models.CheckConstraint(
                condition=Q(open_ops__gte=0, unknown_ops__gte=0, control_count__gte=0, wakes__gte=0),
                name="run_counters_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(floor_seq__gte=1) & Q(floor_seq__lte=F("last_seq") + 1), name="run_floor_in_log"
            ),
            models.CheckConstraint(
                condition=Q(on_disconnect="continue", grace_seconds__isnull=True)
                | Q(on_disconnect="grace", grace_seconds__isnull=False, grace_seconds__gte=0),
                name="run_grace_iff_policy",
            ),
            models.UniqueConstraint(
                fields=["created_by", "tenant", "idempotency_key"],
                name="run_once_per_idempotency_key",
                condition=Q(idempotency_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title


class Attempt(models.Model):
    """One deliberate try at a run. Its id names its event stream."""

    stream_id = models.UUIDField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=24, null=True)  # how it ended

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["run"], name="attempt_one_live", condition=Q(ended_at__isnull=True)),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, status__isnull=True)
                | Q(ended_at__isnull=False, status__isnull=False, status__in=sorted(s.value for s in ENDED)),
                name="attempt_ended_iff_status",
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
