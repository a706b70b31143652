"""People, tokens, a small agent, and a client that speaks JSON with a token."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from pydantic import BaseModel, Field

from runs.access import SCOPES, Actor, issue_token
from runs.agents import registry
from runs.models import Tenant
from tests import builders


class EchoRequest(BaseModel):
    """The input of the agent of these tests."""

    text: str = Field(min_length=1, max_length=1000)
    times: int = 1


@dataclass
class Caller:
    """A program of one person: each call carries its token."""

    actor: Actor
    token: str
    client: Client

    def call(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """Ask the API; a `bytes` body is sent as it is. Keyword arguments are headers (`if_match="1"`)."""
        headers = {"Authorization": f"Bearer {self.token}"}
        headers |= {name.replace("_", "-"): value for name, value in extra.items() if name != "content_type"}
        data = body if isinstance(body, bytes | str) else "" if body is None else json.dumps(body)
        return self.client.generic(
            method, f"/api/v1{path}", data, content_type=extra.get("content_type", "application/json"), headers=headers
        )

    def get(self, path: str, **extra: Any) -> Any:
        """Read."""
        return self.call("GET", path, **extra)

    def post(self, path: str, body: Any = None, **extra: Any) -> Any:
        """Write."""
        return self.call("POST", path, body, **extra)

    def create(self, **fields: Any) -> dict[str, Any]:
        """Make a run and return its object."""
        response = self.post("/runs", {"agent": "echo", "input": {"text": "hello"}, **fields})
        assert response.status_code == 201, response.content
        found: dict[str, Any] = response.json()
        return found


@pytest.fixture(autouse=True)
def echo_agent() -> Iterator[None]:
    """Register the agent `echo`; nobody executes it here."""

    async def echo(ctx: Any, request: EchoRequest) -> str:
        return request.text * request.times

    registry.all_agents()
    registry.agent("echo", description="Says it again.")(echo)
    yield
    registry._agents.pop("echo")


@pytest.fixture(autouse=True)
def cheap_passwords(settings: Any) -> None:
    """Hash passwords fast: nobody here tries to break them."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def make_caller(name: str, tenant: Tenant, role: str, scopes: Any = SCOPES) -> Caller:
    """Make a person with a role and a token."""
    actor = builders.an_actor(name, tenant, role)
    _token, text = issue_token(user=actor.user, tenant=tenant, name="test", scopes=scopes)
    return Caller(actor, text, Client(raise_request_exception=False))


@pytest.fixture
def owner(tenant: Tenant) -> Caller:
    """Starts runs."""
    return make_caller("owner", tenant, "runner")


@pytest.fixture
def teammate(tenant: Tenant) -> Caller:
    """In the same workspace, with the same role."""
    return make_caller("teammate", tenant, "runner")


@pytest.fixture
def operator(tenant: Tenant) -> Caller:
    """May stop and settle what others started."""
    return make_caller("operator", tenant, "operator")


@pytest.fixture
def viewer(tenant: Tenant) -> Caller:
    """Only reads."""
    return make_caller("viewer", tenant, "viewer")


@pytest.fixture
def outsider(db: None) -> Caller:
    """Of another workspace, where they are admin."""
    return make_caller("outsider", builders.a_tenant("umbrella"), "admin")


def error_of(response: Any) -> dict[str, Any]:
    """Read the envelope and check what every error has."""
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"type", "code", "message", "param", "doc_url", "request_id", "retryable", "details"}
    assert error["message"]
    assert error["doc_url"].endswith(f"/api/v1/errors#{error['code']}")
    assert error["request_id"] == response["X-Request-Id"]
    assert response["Content-Type"] == "application/json"
    return error
