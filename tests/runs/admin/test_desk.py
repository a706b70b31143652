import pytest
from django.contrib import admin
from django.urls import reverse

from runs.admin.desk import as_json
from tests.builders import a_run
from tests.runs.pages.scenes import every_state

LISTS = ["run", "operation", "step", "question", "evidence", "document", "artifact", "auditentry"]


def changelist(name):
    return reverse(f"admin:runs_{name}_changelist")


@pytest.mark.parametrize("name", LISTS)
def test_an_operator_reads_every_list(owner, as_operator, name):
    every_state(owner)
    assert as_operator.get(changelist(name)).status_code == 200


@pytest.mark.parametrize("name", [*LISTS, "compensation", "apitoken", "membership", "shell", "shelltarget"])
def test_b54_nonsense_in_the_address_of_a_list_is_no_failure(owner, as_root, name):
    for query in ("state=%00", "kind=%00", "created_at__year=99999999999"):
        answer = as_root.get(f"{changelist(name)}?{query}")
        assert (answer.status_code, answer.headers["Location"]) == (302, f"{changelist(name)}?e=1")


@pytest.mark.parametrize(("name", "action"), [("operation", "look_up"), ("apitoken", "revoke"), ("membership", "x")])
@pytest.mark.parametrize("row_id", ["x", "\0", "9" * 50])
def test_an_action_on_what_is_no_row_is_a_bad_request(owner, as_root, name, action, row_id):
    """It was a server error."""
    answer = as_root.post(changelist(name), {"action": action, "_selected_action": row_id})
    assert answer.status_code == 400


@pytest.mark.parametrize("name", LISTS)
def test_nothing_can_be_added_or_changed_by_hand(owner, as_root, name):
    every_state(owner)
    assert as_root.get(reverse(f"admin:runs_{name}_add")).status_code == 403
    model = next(m for m in admin.site._registry if m._meta.model_name == name)
    row = model._default_manager.first()
    if row is None:
        return
    page = as_root.get(reverse(f"admin:runs_{name}_change", args=[row.pk]))
    assert page.status_code == 200
    assert b'name="_save"' not in page.content
    assert as_root.post(reverse(f"admin:runs_{name}_change", args=[row.pk]), {"title": "x"}).status_code == 403
    assert as_root.post(reverse(f"admin:runs_{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


def test_staff_without_a_role_in_a_tenant_see_nothing(owner, teammate, desk):
    a_run(owner)
    client = desk(teammate)
    assert client.get(changelist("run")).status_code == 403
    assert b"Runs" not in client.get("/admin/").content


def test_an_operator_sees_only_their_tenant(owner, outsider, as_operator):
    mine, theirs = a_run(owner, title="ours"), a_run(outsider, title="theirs of umbrella")
    page = as_operator.get(changelist("run")).content.decode()
    assert "ours" in page
    assert "umbrella" not in page.lower()
    assert as_operator.get(reverse("admin:runs_run_change", args=[mine.pk])).status_code == 200
    assert as_operator.get(reverse("admin:runs_run_change", args=[theirs.pk])).status_code == 302
    for suffix in ("stop",):
        assert as_operator.post(reverse(f"admin:runs_run_{suffix}", args=[theirs.pk])).status_code == 404


def test_a_superuser_sees_all(owner, outsider, as_root):
    a_run(owner, title="ours")
    a_run(outsider, title="theirs")
    page = as_root.get(changelist("run")).content.decode()
    assert "ours" in page
    assert "theirs" in page


def test_the_desk_is_closed_to_people_who_are_no_staff(operator, client):
    client.force_login(operator.user)
    assert client.get(changelist("run")).status_code == 302


def test_shown_json_is_bounded_and_escaped():
    assert len(as_json("x" * 100_000)) < 25_000
    assert "&lt;b&gt;" in as_json({"a": "<b>"})
