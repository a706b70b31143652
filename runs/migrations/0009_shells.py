"""Shells: the terminal of a run, and the places where one may be opened."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import runs.ids


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0008_checkpoints"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ShellTarget",
            fields=[
                ("id", models.UUIDField(default=runs.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=60)),
                (
                    "kind",
                    models.CharField(choices=[("local", "local"), ("ssh", "ssh")], default="local", max_length=10),
                ),
                ("commands", models.JSONField(blank=True, default=list)),
                ("host", models.CharField(blank=True, default="", max_length=255)),
                ("port", models.IntegerField(default=22)),
                ("username", models.CharField(blank=True, default="", max_length=100)),
                ("host_key", models.TextField(blank=True, default="")),
                ("key_file", models.CharField(blank=True, default="", max_length=1000)),
                ("uses_agent", models.BooleanField(default=False)),
                (
                    "min_role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("runner", "Runner"),
                            ("operator", "Operator"),
                            ("admin", "Admin"),
                        ],
                        default="runner",
                        max_length=20,
                    ),
                ),
                ("memory_mb", models.IntegerField(blank=True, null=True)),
                ("processes", models.IntegerField(blank=True, null=True)),
                ("open_files", models.IntegerField(blank=True, null=True)),
                ("cpu_seconds", models.IntegerField(blank=True, null=True)),
                ("may_record", models.BooleanField(default=False)),
                ("is_enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("people", models.ManyToManyField(blank=True, related_name="+", to=settings.AUTH_USER_MODEL)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shell_targets", to="runs.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Shell",
            fields=[
                ("id", models.UUIDField(default=runs.ids.new_id, editable=False, primary_key=True, serialize=False)),
                ("command", models.CharField(blank=True, default="", max_length=1000)),
                ("rows", models.IntegerField()),
                ("cols", models.IntegerField()),
                ("opened_by", models.CharField(default="person", max_length=10)),
                ("is_recorded", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                ("signal", models.IntegerField(null=True)),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shell", to="runs.run"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="shells", to="runs.tenant"
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="shells",
                        to="runs.shelltarget",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at"],
            },
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="shell_target_name_once"),
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["local", "ssh"])), name="shell_target_kind_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind", "local"),
                    models.Q(("host", ""), ("username", ""), ("host_key", ""), _connector="OR", _negated=True),
                    _connector="OR",
                ),
                name="shell_target_ssh_has_address",
            ),
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.CheckConstraint(
                condition=models.Q(("port__gte", 1), ("port__lte", 65535)), name="shell_target_port_exists"
            ),
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.CheckConstraint(
                condition=models.Q(("min_role__in", ["runner", "operator", "admin"])),
                name="shell_target_role_may_write",
            ),
        ),
        migrations.AddConstraint(
            model_name="shelltarget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("memory_mb__isnull", True), ("memory_mb__gt", 0), _connector="OR"),
                    models.Q(("processes__isnull", True), ("processes__gt", 0), _connector="OR"),
                    models.Q(("open_files__isnull", True), ("open_files__gt", 0), _connector="OR"),
                    models.Q(("cpu_seconds__isnull", True), ("cpu_seconds__gt", 0), _connector="OR"),
                ),
                name="shell_target_limits_positive",
            ),
        ),
        migrations.AddIndex(
            model_name="shell",
            index=models.Index(fields=["tenant", "-created_at"], name="shell_list"),
        ),
        migrations.AddIndex(
            model_name="shell",
            index=models.Index(condition=models.Q(("ended_at__isnull", True)), fields=["run"], name="shell_open"),
        ),
        migrations.AddConstraint(
            model_name="shell",
            constraint=models.CheckConstraint(
                condition=models.Q(("cols__gte", 1), ("cols__lte", 1000), ("rows__gte", 1), ("rows__lte", 1000)),
                name="shell_size_possible",
            ),
        ),
        migrations.AddConstraint(
            model_name="shell",
            constraint=models.CheckConstraint(
                condition=models.Q(("opened_by__in", ["person", "agent"])), name="shell_opener_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="shell",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("ended_at__isnull", False),
                    models.Q(("exit_code__isnull", True), ("signal__isnull", True)),
                    _connector="OR",
                ),
                name="shell_exit_only_at_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="shell",
            constraint=models.CheckConstraint(
                condition=models.Q(("exit_code__isnull", True), ("signal__isnull", True), _connector="OR"),
                name="shell_exits_one_way",
            ),
        ),
    ]
