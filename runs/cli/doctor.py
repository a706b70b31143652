"""`outlive doctor`: looks at an installation from the outside, and says line by line what is wrong on the way to it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from runs.cli import doctor_checks, doctor_streams
from runs.cli.api import ANSWER_SECONDS, CONNECT_SECONDS
from runs.cli.doctor_findings import Finding, Verdict, problem, skipped
from runs.cli.output import Output, open_output
from runs.cli.plain_text import safe_line
from runs.cli.problems import EXIT_COMPLETED, EXIT_FAILED, EXIT_UNREACHABLE
from runs.cli.settings import Target
from runs.cli.slim_httpx import httpx

AFTER_THE_TOKEN = ("clock", "address", "sse", "websocket")


def doctor(*, target: Target, as_json: bool, idle_seconds: float | None) -> int:
    """Check one thing after the other. Returns 0, 1 when there is a problem, 5 when nothing answers."""
    output = open_output(as_json=as_json)
    headers = {"User-Agent": "outlive-cli"}
    timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    found: list[Finding] = []
    with httpx.Client(base_url=target.base_url, headers=headers, timeout=timeout, trust_env=True) as http:
        try:
            for finding in _examine(http, target, idle_seconds, output):
                found.append(finding)
                output.row(finding.body(), finding.line())
        except httpx.RequestError as error:
            why = safe_line(str(error), 120) or type(error).__name__
            lost = problem(
                "reachable", f"{target.base_url} gives no answer ({why}).",
                "Nobody gets through to Outlive at this address; its runs go on.",
                "Is the server up (`make up`), and the proxy? Is the address right?",
            )  # fmt: skip
            output.row(lost.body(), lost.line())
            return EXIT_UNREACHABLE
    return EXIT_FAILED if any(finding.verdict is Verdict.PROBLEM for finding in found) else EXIT_COMPLETED


def _examine(http: httpx.Client, target: Target, idle_seconds: float | None, output: Output) -> Iterator[Finding]:
    reachable = doctor_checks.is_reachable(http, target)
    yield reachable
    if reachable.verdict is Verdict.PROBLEM:
        return
    yield doctor_checks.is_ready(http)
    bearer = {"Authorization": f"Bearer {target.token}", "Origin": doctor_checks.origin_of(target.base_url)}
    asked_at = datetime.now(UTC)
    answer = http.get("/api/v1/diagnostics", headers=bearer)
    answered_at = datetime.now(UTC)
    token = doctor_checks.is_token_good(answer, target)
    yield token
    yield doctor_checks.are_redirects_kept(http, target)
    yield doctor_checks.are_cookies_right(http, target)
    http.cookies.clear()
    http.headers.update(bearer)
    yield doctor_checks.are_large_bodies_taken(http)
    if token.verdict is Verdict.PROBLEM:
        yield from (skipped(name, "Not looked at: it needs a good token.") for name in AFTER_THE_TOKEN)
        return
    body = answer.json()
    yield doctor_checks.is_clock_right(str(body["server_time"]), asked_at, answered_at)
    yield doctor_checks.is_address_known(body, target)
    yield doctor_streams.is_anything_held_back(http)
    socket = doctor_streams.do_sockets_get_through(target)
    yield socket
    if idle_seconds is not None:
        yield _idle(target, socket, idle_seconds)
    _tell_limits(body["limits"], output)


def _idle(target: Target, socket: Finding, seconds: float) -> Finding:
    if socket.verdict is Verdict.PROBLEM:
        return skipped("idle", "Not looked at: no socket opens.")
    return doctor_streams.do_idle_ones_stay(target, seconds)


def _tell_limits(limits: list[dict[str, Any]], output: Output) -> None:
    for limit in limits:
        value, default = _number(limit["value"]), _number(limit["default"])
        changed = "" if value == default else f"  (default {default})"
        line = f"limit    {safe_line(str(limit['variable']), 60)}={value}{changed}"
        output.row({"object": "limit", **limit}, line)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
