"""The run's row, where every race ends, and its attempts.

Columns are written by `runs.decisions` only. The constraints below are the invariants that no code path may
break, whatever a bug elsewhere does; tests/runs/test_schema.py violates each of them. What an update may make of a run
is a trigger (runs/migrations/0013): each CHECK costs every update of a run 8 µs, for PostgreSQL reads its text anew.
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.conversation import Conversation
from runs.models.identity import Tenant
from runs.states import DEATHS_TO_ISOLATE, ENDED, MOST_DESCENDANTS, SETTLED, CancelReason, Reuse, Status

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
    deaths = models.IntegerField(
        default=0, db_default=0
    )  # of workers, at the step that was open (runs.decisions.deaths)
    open_children = models.IntegerField(default=0, db_default=0)  # not ended, as far as the outbox has told us
    wakes = models.IntegerField(default=0)
    waiting_for = models.CharField(max_length=10, null=True)
    wake_at = models.DateTimeField(null=True)

    # A child run knows who began it, by which step, and the root of its tree; told_parent: what the parent has counted.
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children", db_index=False)
    parent_step = models.ForeignKey("Step", on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    root = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    told_parent = models.CharField(max_length=8, null=True)  # settled | doubt
    descendants = models.IntegerField(default=0, db_default=0)  # of a root: all that were ever begun below it
    budget_tokens = models.BigIntegerField(null=True)  # of a root: what its tree may spend

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

    conversation = models.ForeignKey(Conversation, on_delete=models.PROTECT, null=True, related_name="runs")
    turn = models.IntegerField(null=True)  # its place in the conversation, from 1
    history = models.JSONField(null=True)  # what was said before, as messages for the model: fixed when the run is made
    is_held = models.BooleanField(default=False, db_default=False)  # nothing of it is deleted, whatever retention says

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="run_list"),
            # The supervisor's sweep and the workers' parent read only runs that have not ended.
            models.Index(fields=["status", "lease_until"], name="run_open", condition=Q(status__in=_OPEN)),
            models.Index(fields=["lease_owner"], name="run_by_owner", condition=Q(lease_owner__isnull=False)),
            # What the parents of workers look for: runs that must run alone.
            models.Index(
                fields=["deaths"], name="run_alone", condition=Q(deaths__gte=DEATHS_TO_ISOLATE, status__in=_OPEN)
            ),
            # Most runs have no parent: their rows stand in neither index.
            models.Index(fields=["parent"], name="run_by_parent", condition=Q(parent__isnull=False)),
            models.Index(fields=["root"], name="run_by_root", condition=Q(root__isnull=False)),
            # The sweep of budgets reads only runs that have one and go on.
            models.Index(
                fields=["status"], name="run_with_budget", condition=Q(budget_tokens__isnull=False, status__in=_OPEN)
            ),
        ]
        constraints = [
            # And so each of them is known.
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
                condition=Q(status="waiting", waiting_for__isnull=False, waiting_for__in=["child", "input", "timer"])
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
                condition=Q(open_ops__gte=0, unknown_ops__gte=0, control_count__gte=0, wakes__gte=0)
                & Q(open_children__gte=0, deaths__gte=0),
                name="run_counters_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(open_children=0) | Q(status__in=_OPEN), name="run_ended_has_no_open_children"
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, parent_step__isnull=True, root__isnull=True)
                | Q(parent__isnull=False, parent_step__isnull=False, root__isnull=False),
                name="run_child_all_or_none",
            ),
            # Whoever locks several runs locks them by id, so this is what makes that "from the root down" (RULES H14).
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | Q(id__gt=F("parent"), parent__gte=F("root")),
                name="run_child_after_parent",
            ),
            models.CheckConstraint(
                condition=Q(told_parent__isnull=True)
                | Q(parent__isnull=False, told_parent="doubt", terminal_at__isnull=False)
                | Q(parent__isnull=False, told_parent="settled", status__in=sorted(s.value for s in SETTLED)),
                name="run_tells_parent_only_its_end",
            ),
            models.CheckConstraint(
                condition=Q(descendants=0)
                | Q(parent__isnull=True, descendants__gt=0, descendants__lte=MOST_DESCENDANTS),
                name="run_tree_bounded",
            ),
            models.CheckConstraint(
                condition=Q(budget_tokens__isnull=True) | Q(budget_tokens__gt=0, parent__isnull=True),
                name="run_budget_of_root",
            ),
            models.UniqueConstraint(
                fields=["parent_step"], name="run_child_once_per_step", condition=Q(parent_step__isnull=False)
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
                fields=["conversation"],
                name="run_one_active_per_conversation",
                condition=Q(conversation__isnull=False, status__in=_OPEN),
            ),
            models.UniqueConstraint(
                fields=["conversation", "turn"],
                name="run_turn_once",
                condition=Q(conversation__isnull=False),
            ),
            models.CheckConstraint(
                condition=Q(conversation__isnull=True, turn__isnull=True)
                | Q(conversation__isnull=False, turn__isnull=False, turn__gte=1),
                name="run_turn_iff_conversation",
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
    """One deliberate try at a run. Its id names its event stream. All but the first say of which attempt they are a
    retry, who asked, why, and what is reused."""

    stream_id = models.UUIDField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    status = models.CharField(max_length=24, null=True)  # how it ended
    retry_of = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="retries")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    reason = models.CharField(max_length=1000, db_default="", blank=True)
    reuse = models.CharField(max_length=10, null=True)
    keys = models.JSONField(null=True)  # operation key of a call -> the key that this attempt uses instead
    idempotency_key = models.CharField(max_length=255, null=True)
    idempotency_digest = models.CharField(max_length=64, null=True)
    is_kept = models.BooleanField(default=False, db_default=False)  # its end is in its checkpoint
    events_expired_at = models.DateTimeField(null=True)  # when retention deleted its events

    class Meta:
        ordering = ["run", "number"]
        indexes = [
            # What the supervisor has yet to keep, and what retention will delete.
            models.Index(
                fields=["ended_at"], name="attempt_to_keep", condition=Q(ended_at__isnull=False, is_kept=False)
            ),
            models.Index(
                fields=["ended_at"],
                name="attempt_to_expire",
                condition=Q(ended_at__isnull=False, events_expired_at__isnull=True),
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["run"], name="attempt_one_live", condition=Q(ended_at__isnull=True)),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, status__isnull=True)
                | Q(ended_at__isnull=False, status__isnull=False, status__in=sorted(s.value for s in ENDED)),
                name="attempt_ended_iff_status",
            ),
            models.CheckConstraint(
                condition=Q(number=1, retry_of__isnull=True, created_by__isnull=True, reuse__isnull=True)
                | Q(
                    number__gt=1,
                    retry_of__isnull=False,
                    created_by__isnull=False,
                    reuse__isnull=False,
                    reuse__in=sorted(r.value for r in Reuse),
                ),
                name="attempt_retry_has_provenance",
            ),
            models.UniqueConstraint(
                fields=["run", "created_by", "idempotency_key"],
                name="attempt_once_per_idempotency_key",
                condition=Q(idempotency_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
