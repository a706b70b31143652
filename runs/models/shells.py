"""Interactive shells: what a run's terminal is, and the places where one may be opened."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from runs.ids import new_id
from runs.models.identity import Role, Tenant
from runs.models.run import Run

MOST_ROWS = MOST_COLS = 1000
_SHELL_ROLES = [Role.RUNNER.value, Role.OPERATOR.value, Role.ADMIN.value]


class ShellTarget(models.Model):
    """Where shells are opened, by whom, and within which limits. A key's content is never stored, only where it is.

    commands: what may be run, the first one by default; empty: the login shell only. people: who may, of those with
    the role; empty: all of them.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="shell_targets")
    name = models.CharField(max_length=60)
    kind = models.CharField(max_length=10, choices=[("local", "local"), ("ssh", "ssh")], default="local")
    commands = models.JSONField(default=list, blank=True)
    host = models.CharField(max_length=255, default="", blank=True)
    port = models.IntegerField(default=22)
    username = models.CharField(max_length=100, default="", blank=True)
    host_key = models.TextField(default="", blank=True)  # as in known_hosts: "ssh-ed25519 AAAA…"
    key_file = models.CharField(max_length=1000, default="", blank=True)  # on the machine of the terminals' host
    uses_agent = models.BooleanField(default=False)
    min_role = models.CharField(max_length=20, choices=Role, default=Role.RUNNER.value)
    people = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="+")
    memory_mb = models.IntegerField(null=True, blank=True)  # of each process; null: the installation's own limit
    processes = models.IntegerField(null=True, blank=True)  # of the user that shells run as
    open_files = models.IntegerField(null=True, blank=True)
    cpu_seconds = models.IntegerField(null=True, blank=True)  # of each process
    may_record = models.BooleanField(default=False)
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="shell_target_name_once"),
            models.CheckConstraint(condition=Q(kind__in=["local", "ssh"]), name="shell_target_kind_known"),
            models.CheckConstraint(
                condition=Q(kind="local") | ~(Q(host="") | Q(username="") | Q(host_key="")),
                name="shell_target_ssh_has_address",
            ),
            models.CheckConstraint(condition=Q(port__gte=1, port__lte=65535), name="shell_target_port_exists"),
            models.CheckConstraint(condition=Q(min_role__in=_SHELL_ROLES), name="shell_target_role_may_write"),
            models.CheckConstraint(
                condition=(Q(memory_mb__isnull=True) | Q(memory_mb__gt=0))
                & (Q(processes__isnull=True) | Q(processes__gt=0))
                & (Q(open_files__isnull=True) | Q(open_files__gt=0))
                & (Q(cpu_seconds__isnull=True) | Q(cpu_seconds__gt=0)),
                name="shell_target_limits_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Shell(models.Model):
    """The terminal of a run: its id names the byte stream. Status, stop, deadline and grace stand on the run.

    target null: the local one that needs no row. ended_at, exit_code and signal follow the run's end, a sweep later.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="shells")
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="shell")
    target = models.ForeignKey(ShellTarget, on_delete=models.PROTECT, null=True, related_name="shells")
    command = models.CharField(max_length=1000, default="", blank=True)  # empty: the login shell
    rows = models.IntegerField()
    cols = models.IntegerField()
    opened_by = models.CharField(max_length=10, default="person")  # person | agent
    # Who has taken an agent's shell over; null: the agent types. Theirs until they hand it back, whatever connects.
    held_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    is_recorded = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    signal = models.IntegerField(null=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="shell_list"),
            # The supervisor's sweep reads only those that have not ended.
            models.Index(fields=["run"], name="shell_open", condition=Q(ended_at__isnull=True)),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(rows__gte=1, rows__lte=MOST_ROWS, cols__gte=1, cols__lte=MOST_COLS),
                name="shell_size_possible",
            ),
            models.CheckConstraint(condition=Q(opened_by__in=["person", "agent"]), name="shell_opener_known"),
            models.CheckConstraint(
                condition=Q(opened_by="agent") | Q(held_by__isnull=True), name="shell_taken_from_agent_only"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=False) | Q(exit_code__isnull=True, signal__isnull=True),
                name="shell_exit_only_at_end",
            ),
            models.CheckConstraint(
                condition=Q(exit_code__isnull=True) | Q(signal__isnull=True), name="shell_exits_one_way"
            ),
        ]

    def __str__(self) -> str:
        return f"shell_{self.id.hex}"


class ShellViewer(models.Model):
    """One connection that watches a shell. It counts until its presence lease has passed; nothing depends on it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="shell_viewers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    presence_until = models.DateTimeField()
    attached_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["attached_at", "id"]
        indexes = [models.Index(fields=["presence_until"], name="viewer_presence")]

    def __str__(self) -> str:
        return f"viewer {self.id} of {self.run_id}"
