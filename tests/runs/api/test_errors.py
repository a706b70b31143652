"""Every error has the one envelope, whatever raised it."""

from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.db import OperationalError
from django.test import Client

from runs import errors as domain
from runs import selectors, services
from runs.api import docs
from runs.api.errors import RULES, Rule
from tests.runs.api.conftest import Caller, error_of


@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/nothing", "/api/v1/runs/", "/api/v1/runs/x/y/z", "/api/v1/%00"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_address_that_does_not_exist_is_404_for_every_method(db: None, path: str, method: str) -> None:
    response = Client(enforce_csrf_checks=True).generic(method, path)
    assert response.status_code == 404
    assert error_of(response)["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/runs", {"GET", "POST"}),
        ("DELETE", "/runs/run_" + "0" * 32, {"GET"}),
        ("GET", "/runs/run_" + "0" * 32 + "/cancel", {"POST"}),
        ("PATCH", "/documents", {"GET", "POST"}),
    ],
)
def test_a_wrong_method_is_405_with_the_right_ones(owner: Caller, method: str, path: str, allow: set[str]) -> None:
    response = owner.call(method, path)
    assert response.status_code == 405
    assert error_of(response)["code"] == "method_not_allowed"
    assert set(response["Allow"].split(", ")) == allow


def test_the_request_id_of_the_caller_comes_back_and_stands_in_the_envelope(owner: Caller) -> None:
    offered = "req_" + "a" * 16
    response = owner.get("/runs/run_x", x_request_id=offered)
    assert response["X-Request-Id"] == offered
    assert error_of(response)["request_id"] == offered
    forged = owner.get("/runs/run_x", x_request_id="req_x\u00e4")
    assert forged["X-Request-Id"] != "req_x\u00e4"


def test_a_bug_is_500_in_the_envelope_and_says_nothing_of_itself(owner: Caller) -> None:
    with patch.object(selectors, "visible_runs", side_effect=RuntimeError("secret detail")):
        response = owner.get("/runs")
    assert response.status_code == 500
    error = error_of(response)
    assert (error["type"], error["code"], error["retryable"]) == ("api_error", "internal_error", True)
    assert "secret" not in response.content.decode()


@pytest.mark.parametrize("raised", [OperationalError("gone"), domain.Busy()])
def test_a_database_that_is_away_or_busy_is_503_with_retry_after(owner: Caller, raised: Exception) -> None:
    with patch.object(services, "create_run", side_effect=raised):
        response = owner.post("/runs", {"agent": "echo", "input": {"text": "a"}})
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert error_of(response)["retryable"] is True


def test_a_row_that_is_locked_for_too_long_is_busy(owner: Caller) -> None:
    run = owner.create()
    locked = psycopg.errors.LockNotAvailable("lock timeout")
    with patch("runs.database._drive", side_effect=locked):
        response = owner.post(f"/runs/{run['id']}/cancel")
    assert response.status_code == 503
    assert error_of(response)["code"] == "busy"


def test_messages_follow_accept_language_and_codes_do_not(owner: Caller) -> None:
    english = error_of(owner.get("/runs/run_x", accept_language="en"))
    chinese = error_of(owner.get("/runs/run_x", accept_language="zh-hans"))
    assert english["code"] == chinese["code"] == "not_found"


def test_each_domain_error_has_a_rule_of_its_own_or_of_an_ancestor() -> None:
    def leaves(cls: type[Exception]) -> set[type[Exception]]:
        return {cls}.union(*(leaves(child) for child in cls.__subclasses__()))

    for cls in leaves(domain.OutliveError):
        rule = next(RULES[parent] for parent in cls.__mro__ if parent in RULES)
        assert isinstance(rule, Rule)
        assert rule.status != 500


def test_each_code_of_the_domain_is_explained(owner: Caller) -> None:
    explained = {code for code, _status, _text in docs.codes()}
    raised: dict[str, Any] = {
        cls.code: cls
        for cls in (
            domain.NotFound, domain.NotAllowed, domain.InvalidInput, domain.UnknownAgent, domain.TooLarge,
            domain.IdempotencyMismatch, domain.TooLate, domain.StaleVersion, domain.NotYet, domain.HasReceipt,
            domain.Busy,
        )
    }  # fmt: skip
    assert set(raised) <= explained
    page = owner.get("/errors").content.decode()
    for code in explained:
        assert f'id="{code}"' in page
