"""Steps and the operation ledger: what a run did, what it meant to do, and what is known of it outside."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.run import Attempt, Run
from runs.states import OperationState, QuestionState, StepState

STEP_KINDS = ["model", "tool", "ask", "timer", "text", "child"]


class Step(models.Model):
    """One durable unit inside an attempt, named by its call path. A finished step is never computed again."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="steps", db_column="stream_id")
    path = models.CharField(max_length=200)  # "1", "2", "3.1" (first branch of the gather at 3)
    kind = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    effect = models.CharField(max_length=12, null=True)
    arguments = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=12, default=StepState.OPEN.value)
    fence = models.BigIntegerField()
    deaths = models.IntegerField(default=0, db_default=0)  # of workers that carried it while it was open
    message_id = models.UUIDField(null=True)  # the text block that is open right now
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)  # {"code", "message"} of a failed step
    usage = models.JSONField(null=True)
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["started_at"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "path"], name="step_path_once"),
            models.CheckConstraint(condition=Q(kind__in=STEP_KINDS), name="step_kind_known"),
            models.CheckConstraint(condition=Q(state__in=[s.value for s in StepState]), name="step_state_known"),
            models.CheckConstraint(
                condition=Q(state="open", finished_at__isnull=True)
                | (~Q(state="open") & Q(finished_at__isnull=False, message_id__isnull=True)),
                name="step_open_iff_unfinished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.path} {self.name}"


class Operation(models.Model):
    """One effect outside our database, under a key that stays the same for every try of it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="operations")
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="operations")
    key = models.CharField(max_length=300)
    tool = models.CharField(max_length=100)
    effect = models.CharField(max_length=12)
    is_process = models.BooleanField(default=False)
    can_look_up = models.BooleanField(default=False)
    arguments = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=12, default=OperationState.INTENDED.value)
    version = models.BigIntegerField(default=1)
    fence = models.BigIntegerField(default=0)
    worker = models.CharField(max_length=100, default="")
    nonce = models.UUIDField(null=True)
    is_ambiguous = models.BooleanField(default=False)  # an earlier try of this key has no receipt (RULES H8)
    gave_up = models.BooleanField(default=False)  # the holder says that nothing more comes from it
    send_by = models.DateTimeField(null=True)
    horizon_at = models.DateTimeField(null=True)  # nothing can land after this, if the holder is gone
    holder_gone_at = models.DateTimeField(null=True)  # a parent or warden saw the holder's exit
    receipt = models.JSONField(null=True)
    next_look_up_at = models.DateTimeField(null=True)
    look_ups = models.IntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())
    dispatched_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    settled_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    settle_note = models.TextField(default="", blank=True)
    contradicted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["created_at"]
        indexes = [
            models.Index(fields=["next_look_up_at"], name="operation_unknown", condition=Q(state="unknown")),
            models.Index(fields=["worker"], name="operation_in_flight", condition=Q(state="dispatched")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["key"], name="operation_key_once"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in OperationState]), name="operation_state_known"
            ),
            models.CheckConstraint(
                condition=Q(effect__in=["read", "idempotent", "write"]), name="operation_effect_known"
            ),
            models.CheckConstraint(
                condition=Q(state="intended") | Q(nonce__isnull=False, dispatched_at__isnull=False),
                name="operation_sent_has_permit",
            ),
        ]

    def __str__(self) -> str:
        return self.key


class Evidence(models.Model):
    """Something learnt about one dispatch of an operation. Rows are only added; they decide nothing themselves."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="evidence")
    fence = models.BigIntegerField()
    kind = models.CharField(max_length=20)  # receipt | refusal | look_up | exit | stray | verdict
    happened = models.BooleanField(null=True)  # None: could not tell
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["at"]
        verbose_name_plural = "evidence"

    def __str__(self) -> str:
        return f"{self.kind} of {self.operation_id}"


class Question(models.Model):
    """What a run asks a person. Answer, timeout and cancel race on this row; the first commit wins."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="questions")
    step = models.OneToOneField(Step, on_delete=models.CASCADE, related_name="question")
    prompt = models.TextField()
    schema = models.JSONField()
    state = models.CharField(max_length=10, default=QuestionState.OPEN.value)
    value = models.JSONField(null=True)
    answered_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["asked_at"]
        indexes = [models.Index(fields=["expires_at"], name="question_due", condition=Q(state="open"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in QuestionState]), name="question_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="open", closed_at__isnull=True) | (~Q(state="open") & Q(closed_at__isnull=False)),
                name="question_open_iff_not_closed",
            ),
        ]

    def __str__(self) -> str:
        return self.prompt[:80]
