import pytest
from django.urls import reverse

from runs.models import AuditEntry, ShellTarget
from tests.builders import a_shell, a_tenant

ADD = reverse("admin:runs_shelltarget_add")
FIELDS = {
    "name": "box", "kind": "local", "commands": "htop\n\n top -b \n", "usernames": "", "port": "22", "host": "",
    "username": "", "host_key": "", "key_file": "", "min_role": "runner", "memory_mb": "", "processes": "",
    "open_files": "", "cpu_seconds": "", "is_enabled": "on",
}  # fmt: skip
SSH = {"kind": "ssh", "host": "h", "username": "u", "host_key": "ssh-ed25519 AAAA", "key_file": "/k"}


def change(target):
    return reverse("admin:runs_shelltarget_change", args=[target.pk])


def test_an_admin_makes_and_changes_a_target_on_record(owner, as_admin):
    data = {**FIELDS, "tenant": owner.tenant.pk, "usernames": "owner"}
    assert as_admin.post(ADD, data).status_code == 302
    target = ShellTarget.objects.get()
    assert (target.commands, list(target.people.all())) == (["htop", "top -b"], [owner.user])
    page = as_admin.get(change(target)).content.decode()
    assert "htop\ntop -b" in page
    assert as_admin.post(change(target), {**data, "is_enabled": "", "usernames": ""}).status_code == 302
    target.refresh_from_db()
    assert (target.is_enabled, target.people.count()) == (False, 0)
    entries = AuditEntry.objects.order_by("at")
    assert [e.action for e in entries] == ["shell_target.made", "shell_target.changed"]
    assert entries[0].detail["people"] == ["owner"]


@pytest.mark.parametrize(
    "wrong",
    [{"usernames": "nobody"}, {"name": ""}, {"port": "0"}, {"min_role": "viewer"}, {"memory_mb": "0"},
     {**SSH, "host": ""}, {**SSH, "host_key": ""}, {**SSH, "key_file": ""}, {"commands": "x" * 1001}],
)  # fmt: skip
def test_a_target_that_cannot_work_is_not_made(owner, as_admin, wrong):
    assert as_admin.post(ADD, {**FIELDS, "tenant": owner.tenant.pk, **wrong}).status_code == 200
    assert not ShellTarget.objects.exists()


def test_a_target_of_another_machine_is_made(owner, as_admin):
    assert as_admin.post(ADD, {**FIELDS, **SSH, "tenant": owner.tenant.pk}).status_code == 302
    assert ShellTarget.objects.get().host == "h"


def test_only_who_manages_the_tenant_sees_its_targets(owner, as_admin, as_operator):
    theirs = ShellTarget.objects.create(tenant=a_tenant("far"), name="far away")
    ours = ShellTarget.objects.create(tenant=owner.tenant, name="ours")
    page = as_admin.get(reverse("admin:runs_shelltarget_changelist")).content.decode()
    assert "ours" in page
    assert "far away" not in page
    assert as_admin.get(change(theirs)).status_code == 302
    assert as_operator.get(change(ours)).status_code == 403
    assert as_admin.post(ADD, {**FIELDS, "tenant": theirs.tenant.pk}).status_code == 200


def test_a_target_that_had_shells_is_kept(owner, as_admin):
    target = ShellTarget.objects.create(tenant=owner.tenant, name="box")
    a_shell(owner, target="box")
    delete = reverse("admin:runs_shelltarget_delete", args=[target.pk])
    assert as_admin.post(delete, {"post": "yes"}).status_code == 403
    assert ShellTarget.objects.exists()


def test_operators_read_shells_and_nobody_writes_them(owner, as_operator):
    shell = a_shell(owner)
    page = reverse("admin:runs_shell_change", args=[shell.pk])
    assert as_operator.get(page).status_code == 200
    assert as_operator.post(page, {"rows": 1}).status_code == 403
    assert str(shell.pk) in as_operator.get(reverse("admin:runs_shell_changelist")).content.decode()
