import re

import pytest
from django.urls import reverse

from runs.access import actor_for_token
from runs.models import ApiToken, AuditEntry, Membership, Tenant


def add(name):
    return reverse(f"admin:runs_{name}_add")


def token_data(tenant, **changes):
    return {"tenant": tenant.pk, "username": "owner", "name": "ci", "scopes": ["runs:read"], "days": "30"} | changes


def test_a_token_is_shown_once_and_works(owner, as_admin):
    page = as_admin.post(add("apitoken"), token_data(owner.tenant))
    text = re.search(rb"<code>(outlive_[^<]+)</code>", page.content)[1].decode()
    assert "no-store" in page["Cache-Control"]
    actor = actor_for_token(text)
    assert (actor.user, actor.tenant, actor.scopes) == (owner.user, owner.tenant, frozenset({"runs:read"}))
    token = ApiToken.objects.get()
    assert token.expires_at is not None
    later = as_admin.get(reverse("admin:runs_apitoken_change", args=[token.pk])).content.decode()
    assert text not in later
    assert token.digest not in later


def test_a_token_can_be_revoked_and_is_then_refused(owner, as_admin):
    page = as_admin.post(add("apitoken"), token_data(owner.tenant, days=""))
    text = re.search(rb"<code>(outlive_[^<]+)</code>", page.content)[1].decode()
    token = ApiToken.objects.get()
    assert token.expires_at is None
    data = {"action": "revoke", "_selected_action": [str(token.pk)]}
    as_admin.post(reverse("admin:runs_apitoken_changelist"), data)
    assert actor_for_token(text) is None
    assert {e.action for e in AuditEntry.objects.all()} == {"token.made", "token.revoked"}


@pytest.mark.parametrize(
    "changes",
    [
        {"username": "nobody"},
        {"username": "outsider"},
        {"scopes": ["root"]},
        {"scopes": []},
        {"days": "0"},
        {"name": ""},
    ],
)
def test_a_token_that_makes_no_sense_is_refused(owner, outsider, as_admin, changes):
    assert as_admin.post(add("apitoken"), token_data(owner.tenant, **changes)).status_code == 200
    assert not ApiToken.objects.exists()


def test_no_token_is_made_for_a_foreign_tenant(owner, outsider, as_admin):
    page = as_admin.post(add("apitoken"), token_data(outsider.tenant, username="outsider"))
    assert page.status_code == 200
    assert not ApiToken.objects.exists()
    assert b"Umbrella" not in as_admin.get(add("apitoken")).content


def test_an_operator_manages_no_people_and_no_tokens(as_operator):
    for name in ("apitoken", "membership", "tenant"):
        assert as_operator.get(reverse(f"admin:runs_{name}_changelist")).status_code == 403
        assert as_operator.get(add(name)).status_code == 403


def test_an_admin_adds_and_changes_members_by_name(owner, outsider, as_admin):
    data = {"tenant": owner.tenant.pk, "username": "outsider", "role": "viewer"}
    assert as_admin.post(add("membership"), data).status_code == 302
    made = Membership.objects.get(tenant=owner.tenant, user=outsider.user)
    assert as_admin.post(add("membership"), data).status_code == 200  # twice is refused with a sentence
    as_admin.post(reverse("admin:runs_membership_change", args=[made.pk]), {"role": "runner"})
    made.refresh_from_db()
    assert made.role == "runner"
    as_admin.post(reverse("admin:runs_membership_delete", args=[made.pk]), {"post": "yes"})
    assert not Membership.objects.filter(pk=made.pk).exists()
    assert [e.action for e in AuditEntry.objects.order_by("at")] == ["member.added", "member.role", "member.removed"]


def test_members_of_other_tenants_are_out_of_reach(outsider, as_admin):
    foreign = Membership.objects.get(user=outsider.user)
    assert as_admin.get(reverse("admin:runs_membership_change", args=[foreign.pk])).status_code == 302
    assert b"outsider" not in as_admin.get(reverse("admin:runs_membership_changelist")).content


def test_only_a_superuser_makes_tenants(as_admin, as_root):
    assert as_admin.get(add("tenant")).status_code == 403
    assert as_root.post(add("tenant"), {"name": "New", "slug": "new"}).status_code == 302
    assert Tenant.objects.filter(slug="new").exists()
