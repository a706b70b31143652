"""`outlive doctor` as a command: order, exit codes, both outputs. The real thing is in tests/proxies/."""

from tests.runs.cli.conftest import Outlive, Script
from tests.streaming.conftest import free_port


def test_no_answer_is_said_in_one_line(outlive: Outlive) -> None:
    ran = outlive("doctor", "--base-url", f"http://127.0.0.1:{free_port()}", "--token", "t")
    assert ran.code == 5
    assert ran.out.startswith("PROBLEM  reachable")
    assert "its runs go on" in ran.out
    assert len(ran.out.splitlines()) == 1


def test_something_else_at_the_address_ends_the_visit(outlive: Outlive, script: Script) -> None:
    script.answer("GET /healthz", 200, {"welcome": "nginx"})
    ran = outlive("doctor", "--json")
    assert ran.code == 1
    assert [(row["check"], row["verdict"]) for row in ran.rows] == [("reachable", "problem")]


def test_without_a_good_token_the_outside_is_still_looked_at(outlive: Outlive, script: Script) -> None:
    script.answer("GET /healthz", 200, {"status": "ok"})
    script.answer("GET /readyz", 200, {"status": "ok", "parts": {}})
    script.answer("GET /diagnostics", 401, {"error": {}})
    script.answer("POST /diagnostics", 401, {"error": {}})
    script.answer("GET /", 302, None, Location="/runs/")
    script.answer("GET /login/", 200, None, Set_Cookie="csrftoken=abc; Path=/")
    ran = outlive("doctor", "--json")
    assert ran.code == 1
    verdicts = {row["check"]: row["verdict"] for row in ran.rows}
    assert verdicts["token"] == "problem"
    assert verdicts["cookies"] == verdicts["redirects"] == verdicts["uploads"] == "ok"
    assert verdicts["sse"] == verdicts["websocket"] == "skipped"
