"""Who may call: tokens in every state, sessions with and without CSRF, and what an answer gives away."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from runs.access import issue_token
from runs.models import ApiToken, Membership, Run
from tests import builders
from tests.runs.api.conftest import Caller, error_of, make_caller

GOOD = {"agent": "echo", "input": {"text": "hello"}}


def test_a_call_without_any_credentials_is_401(db: None) -> None:
    response = Client().get("/api/v1/runs")
    assert response.status_code == 401
    error = error_of(response)
    assert (error["type"], error["code"]) == ("authentication_error", "not_signed_in")
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer outlive_nope", "Basic b3duZXI6eA==", "outlive_nope", "Bearer \xff", ""]
)
def test_a_bad_authorization_header_is_401_even_beside_a_good_session(owner: Caller, header: str) -> None:
    client = Client()
    client.force_login(owner.actor.user)
    response = client.get("/api/v1/runs", headers={"Authorization": header})
    assert response.status_code == 401
    error_of(response)


@pytest.mark.parametrize(
    "change",
    [
        {"expires_at": timezone.now() - timedelta(seconds=1)},
        {"revoked_at": timezone.now() - timedelta(seconds=1)},
        {"digest": "0" * 64},
    ],
)
def test_an_expired_revoked_or_unknown_token_is_401_alike(owner: Caller, change: dict[str, Any]) -> None:
    ApiToken.objects.update(**change)
    response = owner.get("/runs")
    assert response.status_code == 401
    assert error_of(response)["code"] == "invalid_token"


def test_the_token_of_an_inactive_person_or_of_one_who_left_the_workspace_is_401(owner: Caller) -> None:
    owner.actor.user.is_active = False
    owner.actor.user.save(update_fields=["is_active"])
    assert owner.get("/runs").status_code == 401
    owner.actor.user.is_active = True
    owner.actor.user.save(update_fields=["is_active"])
    assert owner.get("/runs").status_code == 200
    Membership.objects.all().delete()
    assert owner.get("/runs").status_code == 401


def test_last_used_at_is_written_at_most_once_a_minute(owner: Caller) -> None:
    owner.get("/runs")
    first = ApiToken.objects.get().last_used_at
    owner.get("/runs")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    owner.get("/runs")
    assert ApiToken.objects.get().last_used_at > timezone.now() - timedelta(seconds=30)


def test_only_the_hash_of_a_token_is_stored(owner: Caller) -> None:
    stored = ApiToken.objects.values().get()
    assert owner.token not in str(stored)


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [("runs:read", {"read"}), ("runs:write", {"create"}), ("runs:cancel", set()), ("operations:settle", set())],
)
def test_a_token_does_what_its_scopes_say_and_nothing_else(tenant: Any, scope: str, allowed: set[str]) -> None:
    caller = make_caller("scoped", tenant, "admin", scopes=[scope])
    statuses = {
        "read": caller.get("/runs").status_code,
        "create": caller.post("/runs", GOOD).status_code,
        "documents": caller.get("/documents").status_code,
        "operations": caller.get("/operations").status_code,
    }
    expected_read = 200 if "read" in allowed else 403
    assert statuses == {
        "read": expected_read,
        "create": 201 if "create" in allowed else 403,
        "documents": expected_read,
        "operations": expected_read,
    }


def test_a_token_without_the_cancel_scope_cannot_stop(tenant: Any) -> None:
    caller = make_caller("scoped", tenant, "admin", scopes=["runs:read", "runs:write"])
    run = caller.create()
    assert caller.post(f"/runs/{run['id']}/cancel").status_code == 403
    assert Run.objects.get().status == "queued"


def test_a_session_reads_without_csrf_but_writes_only_with_it(owner: Caller) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.actor.user)
    assert client.get("/api/v1/runs").status_code == 200
    refused = client.post("/api/v1/runs", GOOD, content_type="application/json")
    assert refused.status_code == 403
    assert error_of(refused)["code"] == "csrf_failed"
    assert Run.objects.count() == 0
    client.cookies[settings.CSRF_COOKIE_NAME] = "a" * 32
    taken = client.post(
        "/api/v1/runs",
        GOOD,
        content_type="application/json",
        headers={"X-CSRFToken": "a" * 32, "Origin": "http://testserver"},
    )
    assert taken.status_code == 201


def test_a_token_needs_no_csrf(owner: Caller) -> None:
    owner.client = Client(enforce_csrf_checks=True)
    assert owner.post("/runs", GOOD).status_code == 201


def test_a_signed_in_person_without_a_workspace_is_403(owner: Caller) -> None:
    Membership.objects.all().delete()
    client = Client()
    client.force_login(owner.actor.user)
    response = client.get("/api/v1/runs")
    assert response.status_code == 403
    assert error_of(response)["code"] == "no_workspace"


def test_a_token_acts_in_its_own_workspace_only(owner: Caller) -> None:
    other = builders.a_tenant("second")
    Membership.objects.create(tenant=other, user=owner.actor.user, role="admin")
    run = owner.create()
    _row, text = issue_token(user=owner.actor.user, tenant=other, name="other", scopes=["runs:read"])
    owner.token = text
    assert owner.get(f"/runs/{run['id']}").status_code == 404
