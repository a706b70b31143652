"""The doctor's questions about streams: is anything held back, do WebSockets get through, is an idle one cut?"""

import json
import time
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from runs.cli.doctor_checks import origin_of
from runs.cli.doctor_findings import HELP, Finding, Verdict, ok, problem, warning
from runs.cli.plain_text import safe_line
from runs.cli.settings import Target
from runs.cli.slim_httpx import httpx, httpx_sse

BEATS, EVERY_SECONDS = 4, 0.5
LATE_SECONDS = 2.0
PATIENCE_SECONDS = 20.0
# WebSocketException: a proxy may also send a socket elsewhere, to its page for signing in.
NOT_THERE = (WebSocketException, OSError, ValueError, RecursionError)
POLLING = 'Pages work, but say "No live connection; refreshing every 5 s".'
UPGRADE = f"Let the proxy speak HTTP/1.1 to Outlive and pass Upgrade and Connection on; see {HELP}."


def is_anything_held_back(http: httpx.Client) -> Finding:
    """Do server-sent events come when they are sent, compressed or not?

    What came together is asked for once more, and slower: this machine may have slept.
    """
    finding = _listen(http, EVERY_SECONDS)
    return _listen(http, 3 * EVERY_SECONDS) if finding.verdict is Verdict.PROBLEM else finding


def _listen(http: httpx.Client, every_seconds: float) -> Finding:
    asked = time.monotonic()
    came: list[float] = []
    params = {"beats": str(BEATS), "every": str(every_seconds)}
    headers = {"Accept": "text/event-stream"}
    timeout = httpx.Timeout(PATIENCE_SECONDS)
    try:
        with http.stream(
            "GET", "/api/v1/diagnostics/stream", params=params, headers=headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                return _no_stream(f"A test stream is answered {answer.status_code}.")
            zipped = safe_line(answer.headers.get("Content-Encoding", ""), 20)
            events = httpx_sse.EventSource(answer).iter_sse()
            came.extend(time.monotonic() - asked for _event in events)  # each is timed as it comes
    except (httpx.TransportError, httpx_sse.SSEError, httpx.DecodingError) as error:
        return _no_stream(f"A test stream broke off ({safe_line(str(error), 80) or type(error).__name__}).")
    if len(came) != BEATS:
        return _no_stream(f"A test stream of {BEATS} events brought {len(came)}.")
    return _judge(came, every_seconds * (BEATS - 1), zipped)


def _judge(came: list[float], meant_seconds: float, zipped: str) -> Finding:
    """Judge when the events came, in seconds after the question; they were sent over `meant_seconds`."""
    if came[-1] - came[0] < meant_seconds / 2:
        return problem(
            "sse", f"{BEATS} events that were sent over {meant_seconds:.1f} s came together after {came[-1]:.1f} s.",
            "Whoever follows a run over SSE sees it late, or only at its end. Runs go on, and Stop works.",
            f"Stop the buffering on the way (nginx: proxy_buffering off, or obey X-Accel-Buffering); see {HELP}.",
        )  # fmt: skip
    if came[0] > LATE_SECONDS:
        return warning(
            "sse", f"The first event took {came[0]:.1f} s.", "The others came in time.",
            "Ask again; if it stays so, something on the way waits for more before it sends.",
        )  # fmt: skip
    how = f", compressed ({zipped})" if zipped else ""
    return ok("sse", f"The first event came after {came[0]:.2f} s, the others one by one{how}.")


def _no_stream(seen: str) -> Finding:
    return problem("sse", seen, "Programs that follow a run over SSE cannot. Runs go on.", f"See {HELP}.")


def do_sockets_get_through(target: Target) -> Finding:
    """Does a WebSocket open, as a page of this address would open it, and say `ready`?"""
    began = time.monotonic()
    try:
        with _feed(target) as socket:
            first = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
            took = time.monotonic() - began
    except InvalidStatus as refused:
        status = refused.response.status_code
        if status == 403:
            return problem(
                "websocket", "The handshake is refused (403).", POLLING,
                f"Start Outlive with OUTLIVE_BASE_URL={origin_of(target.base_url)}.",
            )  # fmt: skip
        return problem(
            "websocket", f"The handshake is answered {status}: the upgrade got lost on the way.", POLLING, UPGRADE
        )
    except NOT_THERE as error:
        why = safe_line(str(error), 80) or type(error).__name__
        return problem("websocket", f"A socket did not open ({why}).", POLLING, UPGRADE)
    if not isinstance(first, dict) or first.get("type") != "ready":
        first = first if isinstance(first, dict) else {}
        why = safe_line(str(first.get("reason") or first.get("type")), 40)
        return problem("websocket", f"A socket opened and was closed again ({why}).", POLLING, "Has the token expired?")
    return ok("websocket", f"A socket was ready after {took:.2f} s.")


def do_idle_ones_stay(target: Target, seconds: float) -> Finding:
    """Does a socket on which only heartbeats pass stay open for so long?"""
    began = time.monotonic()
    beats = 0
    try:
        with _feed(target) as socket:
            while (left := began + seconds - time.monotonic()) > 0:
                try:
                    frame = json.loads(socket.recv(timeout=left))
                except TimeoutError:
                    break
                beats += isinstance(frame, dict) and frame.get("type") == "heartbeat"
    except NOT_THERE:
        lasted = time.monotonic() - began
        return problem(
            "idle", f"An idle socket was cut after {lasted:.0f} s.",
            "Pages reconnect by themselves and lose nothing, but again and again.",
            f"Raise the idle limit on the way above 15 s (nginx: proxy_read_timeout); see {HELP}.",
        )  # fmt: skip
    return ok("idle", f"An idle socket stayed open for {seconds:.0f} s, with {beats} heartbeats.")


def _feed(target: Target) -> ClientConnection:
    """Open the feed of the run list, with the Origin that a page of this address has."""
    parts = urlsplit(target.base_url)
    return connect(
        f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path}/ws/v1/runs/",
        origin=Origin(origin_of(target.base_url)),
        subprotocols=[Subprotocol("app.v1")],
        additional_headers={"Authorization": f"Bearer {target.token}"},
        user_agent_header="outlive-cli",
        open_timeout=PATIENCE_SECONDS,
    )
