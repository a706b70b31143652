"""The doctor's plain questions over HTTP: is it there, is it ready, who am I, which address, which cookies."""

import contextlib
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urljoin, urlsplit

from runs.cli.doctor_findings import HELP, Finding, ok, problem, warning
from runs.cli.plain_text import safe_line
from runs.cli.settings import Target
from runs.cli.slim_httpx import httpx

CLOCK_SECONDS = 2.0
BODY_BYTES = 2 << 20  # nginx takes 1 MB of its own
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def origin_of(url: str) -> str:
    """Give the origin of an address as a browser writes it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_reachable(http: httpx.Client, target: Target) -> Finding:
    """Does anything answer at this address, and is it Outlive? Raises: httpx.TransportError."""
    answer = http.get("/healthz")
    if answer.status_code == 200 and _json(answer) == {"status": "ok"}:
        return ok("reachable", f"{target.base_url} answers in {answer.elapsed.total_seconds() * 1000:.0f} ms.")
    return problem(
        "reachable", f"{target.base_url}/healthz answers {answer.status_code}, and not as Outlive does.",
        "Nobody gets through to Outlive at this address; its runs go on.",
        "If the proxy answers, look at where it sends requests; else is the address right?",
    )  # fmt: skip


def is_ready(http: httpx.Client) -> Finding:
    """Do its database and Redis answer?"""
    answer = http.get("/readyz")
    body = _json(answer)
    parts = body.get("parts") if isinstance(body, dict) else None
    if answer.status_code == 200:
        return ok("ready", "Database and Redis answer.")
    down = [name for name, state in parts.items() if state != "ok"] if isinstance(parts, dict) else []
    if down == ["redis"]:
        return warning(
            "ready", "Redis does not answer.", "Runs go on, but each step of theirs and each page waits for a poll.",
            "Start Redis, or look at REDIS_URL.",
        )  # fmt: skip
    what = safe_line(" and ".join(down), 60).capitalize() or "It"
    return problem(
        "ready", f"{what} cannot be reached ({answer.status_code}).",
        "Nothing begins and nothing is recorded until then; what was recorded stays.",
        "Look at DATABASE_URL and the log of the web process.",
    )  # fmt: skip


def is_token_good(answer: httpx.Response, target: Target) -> Finding:
    """Did the question with our token get an answer of ours?"""
    if answer.status_code == 200 and _is_diagnostics(_json(answer)):
        return ok("token", "The token is accepted.")
    if answer.status_code == 200:
        return problem(
            "token", f"{target.base_url}/api/v1/diagnostics answers, and not as Outlive does.",
            "Programs cannot reach it; runs are not concerned.",
            "Does the proxy put a page of its own in front, for signing in? Let requests with a token through.",
        )  # fmt: skip
    if answer.status_code in (401, 403):
        return problem(
            "token", f"The token is refused ({answer.status_code}).",
            "Programs with it can do nothing; pages and runs are not concerned.",
            "Make a new one in the admin (API tokens), or does the proxy take the Authorization header away?",
        )  # fmt: skip
    return problem(
        "token", f"{target.base_url}/api/v1/diagnostics answers {answer.status_code}.",
        "The rest cannot be looked at.", "Is the server as new as this command?",
    )  # fmt: skip


def is_clock_right(server_time: str, asked_at: datetime, answered_at: datetime) -> Finding:
    """How far is the server's clock from ours? The middle of the question is when it looked."""
    middle = asked_at + (answered_at - asked_at) / 2
    ahead = (datetime.fromisoformat(server_time).astimezone(UTC) - middle).total_seconds()
    if abs(ahead) <= CLOCK_SECONDS + (answered_at - asked_at).total_seconds() / 2:
        return ok(
            "clock", f"The server's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this one."
        )
    return warning(
        "clock", f"The server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this one.",
        "Runs are not concerned: only PostgreSQL's clock counts. Times in logs do not match.",
        "Let both follow a time server (NTP).",
    )  # fmt: skip


def is_address_known(body: dict[str, Any], target: Target) -> Finding:
    """Are forms and sockets of pages at this address accepted?"""
    mine, configured = origin_of(target.base_url), origin_of(str(body["base_url"]))
    if not body["arrived"]["is_origin_accepted"]:
        return problem(
            "address", f"Outlive believes to live at {safe_line(configured, 100)}.",
            f"Pages at {mine} load, but their forms (Stop too) and their live connection are refused.",
            f"Start it with OUTLIVE_BASE_URL={mine}.",
        )  # fmt: skip
    if mine != configured:
        return warning(
            "address", f"Outlive believes to live at {safe_line(configured, 100)}.",
            f"Links that it writes (curl lines, mails) do not lead to {mine}.",
            f"Start it with OUTLIVE_BASE_URL={mine}, if that is its address.",
        )  # fmt: skip
    return ok("address", f"Pages at {mine} are accepted.")


def are_redirects_kept(http: httpx.Client, target: Target) -> Finding:
    """Does the way from / to the pages stay at this address?"""
    answer = http.get("/")
    place = answer.headers.get("Location", "")
    led = _led_to(target, place)
    if answer.status_code in (301, 302, 303, 307, 308) and led == origin_of(target.base_url):
        return ok("redirects", "They stay at this address.")
    if not answer.is_redirect:
        return warning(
            "redirects", f"/ answers {answer.status_code}.", "People do not come from there to the list of runs.",
            "Does the proxy pass on everything below /, and not only a part?",
        )  # fmt: skip
    return problem(
        "redirects", f"/ leads to {safe_line(led, 100)}.", "People leave this address, and cannot sign in there.",
        f"Let the proxy pass Location on as it is (nginx: proxy_redirect off); see {HELP}.",
    )  # fmt: skip


def are_cookies_right(http: httpx.Client, target: Target) -> Finding:
    """Do the cookies fit the scheme, and is anything readable on the way?"""
    cookies = SimpleCookie()
    for line in http.get("/login/").headers.get_list("Set-Cookie"):
        with contextlib.suppress(CookieError):  # a proxy's, with a name that is none
            cookies.load(line)
    is_https = target.base_url.startswith("https://")
    is_secure = any(morsel["secure"] for morsel in cookies.values())
    if not cookies:
        return problem(
            "cookies", "The sign-in page sets no cookie.", "Nobody can sign in.", "Does the proxy take Set-Cookie away?"
        )
    if is_secure and not is_https:
        return problem(
            "cookies", "They are for https only, and this address is http.", "Browsers drop them: nobody can sign in.",
            "Use https, or start Outlive with an http:// OUTLIVE_BASE_URL.",
        )  # fmt: skip
    if is_https and not is_secure:
        return problem(
            "cookies", "They are not marked Secure.", "A browser would send the session over plain http as well.",
            f"Start Outlive with OUTLIVE_BASE_URL={origin_of(target.base_url)}.",
        )  # fmt: skip
    if not is_https and urlsplit(target.base_url).hostname not in LOOPBACK:
        return warning(
            "cookies", "This address is http.", "Passwords, tokens and all output are readable on the way.",
            "Put https in front of it.",
        )  # fmt: skip
    return ok("cookies", "Marked Secure." if is_secure else "This machine only, so http is good enough.")


def are_large_bodies_taken(http: httpx.Client) -> Finding:
    """Is a body of 2 MB answered by Outlive (which refuses it here), or by something in between?"""
    answer = http.post("/api/v1/diagnostics", content=b"\0" * BODY_BYTES)
    body = _json(answer)
    if isinstance(body, dict) and "error" in body:
        return ok("uploads", "A body of 2 MB gets through.")
    return problem(
        "uploads", f"A body of 2 MB is answered {answer.status_code} on the way.",
        "Larger documents cannot be uploaded; runs are not concerned.",
        f"nginx: client_max_body_size 80m; see {HELP}.",
    )  # fmt: skip


def _led_to(target: Target, place: str) -> str:
    try:
        return origin_of(urljoin(f"{target.base_url}/", place))
    except ValueError:  # no address at all
        return place


def _is_diagnostics(body: Any) -> bool:
    return isinstance(body, dict) and body.get("object") == "diagnostics"


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None
