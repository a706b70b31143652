"""OpenAPI and its page under our CSP, and the two questions of an orchestrator."""

import re
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.db import DatabaseError, connection
from django.test import Client

from tests.runs.api.conftest import Caller


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/errors"])
def test_the_documents_are_for_callers_only(db: None, owner: Caller, path: str) -> None:
    assert Client().get(f"/api/v1{path}").status_code == 401
    page = Client().get(f"/api/v1{path}", headers={"Accept": "text/html"})
    assert (page.status_code, page["Location"].split("?")[0]) == (302, "/login/")
    assert owner.get(path).status_code == 200


def test_openapi_names_every_call_of_the_api_and_both_ways_to_sign_in(owner: Caller) -> None:
    document = owner.get("/openapi.json").json()
    calls = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert {
        "POST /api/v1/runs",
        "GET /api/v1/runs",
        "GET /api/v1/runs/{run_id}",
        "GET /api/v1/runs/{run_id}/events",
        "POST /api/v1/runs/{run_id}/cancel",
        "POST /api/v1/runs/{run_id}/answers/{question_id}",
        "GET /api/v1/runs/{run_id}/steps",
        "GET /api/v1/runs/{run_id}/artifacts",
        "GET /api/v1/runs/{run_id}/artifacts/{artifact_id}",
        "GET /api/v1/documents",
        "POST /api/v1/documents",
        "GET /api/v1/documents/{document_id}",
        "DELETE /api/v1/documents/{document_id}",
        "GET /api/v1/operations",
        "GET /api/v1/operations/{operation_id}",
        "POST /api/v1/operations/{operation_id}/settle",
        "POST /api/v1/shells",
        "GET /api/v1/shells",
        "GET /api/v1/shells/{shell_id}",
        "POST /api/v1/shells/{shell_id}/terminate",
        "POST /api/v1/shells/{shell_id}/keep",
    } <= calls
    kinds = {scheme["type"] for scheme in document["components"]["securitySchemes"].values()}
    assert kinds == {"http", "apiKey"}


def test_the_docs_page_needs_nothing_that_our_csp_forbids(owner: Caller) -> None:
    response = owner.get("/docs")
    page = response.content.decode()
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    for tag, body in re.findall(r"<script([^>]*)>(.*?)</script>", page, re.S):
        assert "src=" in tag or 'type="application/json"' in tag, body
    assert "<style" not in page
    assert not re.search(r"\son\w+=", page)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    for address in addresses:
        assert address.startswith("/static/"), address
        assert finders.find(address.removeprefix("/static/")), address


def test_healthz_asks_nobody(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        response = Client().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert Client().post("/healthz").status_code == 405


def test_readyz_is_200_while_database_and_redis_answer(db: None) -> None:
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json()["parts"] == {"database": "ok", "redis": "ok"}


def test_readyz_names_what_does_not_answer(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = "unix:///nonexistent/redis.sock"
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"] == {"database": "ok", "redis": "unreachable"}

    def refuse(*args: Any) -> None:
        raise DatabaseError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "cursor", refuse)
        assert Client().get("/readyz").json()["parts"]["database"] == "unreachable"
