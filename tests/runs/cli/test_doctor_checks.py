"""The doctor's plain checks against a server that answers as broken installations do."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from runs.cli import doctor_checks
from runs.cli.doctor_findings import Verdict
from runs.cli.doctor_streams import do_sockets_get_through
from runs.cli.settings import Target
from tests.runs.cli.conftest import Script
from tests.streaming.hostile import a_hostile_server, answer

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def http(script: Script) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=script.base_url) as client:
        yield client


@pytest.fixture
def target(script: Script) -> Target:
    return Target(script.base_url, "outlive_secret")


def test_something_else_at_the_address_is_no_outlive(script: Script, http: httpx.Client, target: Target) -> None:
    script.answer("GET /healthz", 200, {"welcome": "nginx"})
    finding = doctor_checks.is_reachable(http, target)
    assert finding.verdict is Verdict.PROBLEM
    assert "not as Outlive does" in finding.seen


@pytest.mark.parametrize(
    ("down", "verdict", "says"),
    [("redis", Verdict.WARNING, "Redis does not answer"), ("database", Verdict.PROBLEM, "Database cannot be reached")],
)
def test_what_is_down_is_named_with_what_it_means(
    script: Script, http: httpx.Client, down: str, verdict: Verdict, says: str
) -> None:
    parts = {"database": "ok", "redis": "ok"} | {down: "unreachable"}
    script.answer("GET /readyz", 503, {"status": "unavailable", "parts": parts})
    finding = doctor_checks.is_ready(http)
    assert (finding.verdict, says in finding.seen) == (verdict, True)


@pytest.mark.parametrize(("status", "says"), [(401, "Make a new one"), (404, "as new as this command")])
def test_a_refused_token_and_an_old_server_differ(
    script: Script, http: httpx.Client, target: Target, status: int, says: str
) -> None:
    script.answer("GET /diagnostics", status, {})
    finding = doctor_checks.is_token_good(http.get("/api/v1/diagnostics"), target)
    assert finding.verdict is Verdict.PROBLEM
    assert says in finding.next_move


@pytest.mark.parametrize(
    ("ahead", "verdict", "word"),
    [(1.5, Verdict.OK, "ahead"), (30, Verdict.WARNING, "30 s ahead"), (-90, Verdict.WARNING, "90 s behind")],
)
def test_a_wrong_clock_is_told_with_its_direction(ahead: float, verdict: Verdict, word: str) -> None:
    said = (NOW + timedelta(seconds=ahead)).isoformat()
    finding = doctor_checks.is_clock_right(said, NOW - timedelta(seconds=0.1), NOW + timedelta(seconds=0.1))
    assert finding.verdict is verdict
    assert word in finding.seen


def test_a_slow_answer_is_no_wrong_clock() -> None:
    """It may have looked at its clock at any time in between."""
    said = (NOW + timedelta(seconds=9)).isoformat()
    finding = doctor_checks.is_clock_right(said, NOW - timedelta(seconds=10), NOW + timedelta(seconds=10))
    assert finding.verdict is Verdict.OK


@pytest.mark.parametrize(
    ("configured", "accepted", "verdict"),
    [
        ("https://outlive.example", True, Verdict.OK),
        ("http://127.0.0.1:8000", True, Verdict.WARNING),
        ("http://127.0.0.1:8000", False, Verdict.PROBLEM),
    ],
)
def test_an_unknown_address_is_a_problem_only_where_pages_are_refused(
    configured: str, accepted: bool, verdict: Verdict
) -> None:
    body: dict[str, Any] = {"base_url": configured, "arrived": {"is_origin_accepted": accepted}}
    assert doctor_checks.is_address_known(body, Target("https://outlive.example", "t")).verdict is verdict


@pytest.mark.parametrize(("place", "verdict"), [("/runs/", Verdict.OK), ("http://127.0.0.1:1/runs/", Verdict.PROBLEM)])
def test_a_redirect_to_the_inside_is_a_problem(
    script: Script, http: httpx.Client, target: Target, place: str, verdict: Verdict
) -> None:
    script.answer("GET /", 302, None, Location=place)
    assert doctor_checks.are_redirects_kept(http, target).verdict is verdict


def test_cookies_that_no_browser_would_send_are_a_problem(script: Script, http: httpx.Client, target: Target) -> None:
    script.answer("GET /login/", 200, None, Set_Cookie="csrftoken=abc; Path=/; Secure")
    assert "https only" in doctor_checks.are_cookies_right(http, target).seen
    script.answer("GET /login/", 200, None, Set_Cookie="csrftoken=abc; Path=/")
    assert doctor_checks.are_cookies_right(http, target).verdict is Verdict.OK
    script.answer("GET /login/", 200, None)
    assert "no cookie" in doctor_checks.are_cookies_right(http, target).seen


def test_plain_http_to_another_machine_and_unmarked_cookies_are_told(script: Script, http: httpx.Client) -> None:
    script.answer("GET /login/", 200, None, Set_Cookie="csrftoken=abc; Path=/")
    finding = doctor_checks.are_cookies_right(http, Target("http://outlive.example", "t"))
    assert finding.verdict is Verdict.WARNING
    assert "readable on the way" in finding.means
    finding = doctor_checks.are_cookies_right(http, Target("https://outlive.example", "t"))
    assert finding.seen == "They are not marked Secure."


@pytest.mark.parametrize("body", [{}, {"object": "list"}, [], None])
def test_a_page_of_a_proxy_in_place_of_an_answer_is_no_good_token(
    script: Script, http: httpx.Client, target: Target, body: Any
) -> None:
    script.answer("GET /diagnostics", 200, body)
    finding = doctor_checks.is_token_good(http.get("/api/v1/diagnostics"), target)
    assert finding.verdict is Verdict.PROBLEM
    assert "signing in" in finding.next_move


def test_a_cookie_with_no_name_of_one_hides_no_other(script: Script, http: httpx.Client, target: Target) -> None:
    script.answer("GET /login/", 200, None, Set_Cookie="a(b)=1; Path=/")
    assert "sets no cookie" in doctor_checks.are_cookies_right(http, target).seen


def test_a_redirect_to_no_address_leads_away(script: Script, http: httpx.Client, target: Target) -> None:
    script.answer("GET /", 302, None, Location="http://[")
    assert "leads to http://[" in doctor_checks.are_redirects_kept(http, target).seen


def test_a_socket_that_is_sent_to_a_page_for_signing_in_did_not_open() -> None:
    with a_hostile_server() as server:
        for bytes_ in (
            answer("302 F", b"", "Location: https://sso.example/in"),
            answer("302 F", b"", "Location: http://["),
        ):
            server.bytes = bytes_
            finding = do_sockets_get_through(Target(server.base, "t"))
            assert finding.verdict is Verdict.PROBLEM
            assert "did not open" in finding.seen
