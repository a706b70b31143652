"""What HTTP answers mean for a reader: frames, a cut that is bridged, or the server's last word. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.reading.errors import Cut, refusal_of_status
from runs.reading.items import Frame
from runs.reading.machine import DONE

AWAY = frozenset({429, 502, 503, 504})  # the server, or its limits: not the transport
GONE = 410
POLL_SECONDS = 5.0  # between the pages of a run that has ended, for a tail
EMPTY_SECONDS = 1.0  # between two pages that hold nothing
ENDED: Frame = {"type": "closing", "code": DONE, "reason": "ended"}


@dataclass(frozen=True, slots=True)
class Page:
    """The frames that a stream would have given in place of this page; is_ended: the run has, and we are at its end."""

    frames: list[Frame]
    is_ended: bool
    has_news: bool

    def pause_seconds(self, took_seconds: float) -> float:
        """Say how long to wait before the next page; of a run that has ended (a tail) none is held back."""
        if self.is_ended:
            return POLL_SECONDS
        # Whoever answers at once that there is nothing, as a proxy may, must not be asked in a circle.
        return 0.0 if self.has_news else max(0.0, EMPTY_SECONDS - took_seconds)


def judge(status: int, headers: Mapping[str, str], body: bytes) -> Exception:
    """Make the error that an answer without success stands for: a Cut, or a StreamRefused."""
    reason = _message_of(body) or f"HTTP {status}"
    if 400 <= status < 500 and status != 429:
        return refusal_of_status(status, reason)
    if 300 <= status < 400:
        return refusal_of_status(status, f"it is elsewhere: {headers.get('location', '?')}")
    return Cut(reason, retry_after=_seconds(headers.get("retry-after")), is_blocked=status not in AWAY)


def judge_handshake(status: int, headers: Mapping[str, str]) -> Cut:
    """Say why a WebSocket could not be opened: the server is away, or something on the way knows none."""
    is_away = status in AWAY
    return Cut(f"HTTP {status}", retry_after=_seconds(headers.get("retry-after")), is_blocked=not is_away)


def read_page(body: bytes, *, is_tail: bool) -> Page:
    """Read a page; without a tail the end of the run closes it. Raises: Cut."""
    try:
        page = json.loads(body)
        data, snapshot, cursor = page["data"], page.get("snapshot"), page["next_cursor"]
        is_at_head, is_ended = not page["has_more"], page["is_ended"]
        ready = {
            "type": "ready",
            "stream_id": page["stream_id"],
            "head_seq": page["head_seq"],
            "status": page["status"],
        }
        frames: list[Frame] = [ready, *([snapshot] if snapshot else []), *data]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Cut("a page came that is none of ours", is_blocked=True) from error
    has_news = len(frames) > 1
    if is_at_head:
        frames.append({"type": "caught_up", "cursor": cursor})
    is_at_end = is_at_head and bool(is_ended)
    return Page([*frames, ENDED] if is_at_end and not is_tail else frames, is_at_end, has_news)


def read_gone(body: bytes, requested: str | None) -> Frame:
    """Make the gap that a 410 stands for."""
    error = _error_of(body)
    details = error.get("details")
    details = details if isinstance(details, dict) else {}
    return {
        "type": "gap", "requested": requested, "earliest_seq": details.get("earliest_seq"),
        "reason": details.get("reason", "trimmed"),
    }  # fmt: skip


def _error_of(body: bytes) -> dict[str, Any]:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _message_of(body: bytes) -> str:
    return str(_error_of(body).get("message") or "")


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isascii() and text.isdigit() else 0.0
