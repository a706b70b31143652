"""Reading a run's events over SSE until its end, over any number of cuts: each reconnect names the last cursor."""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from runs.cli.api import ANSWER_SECONDS, CONNECT_SECONDS, SILENCE_SECONDS, ApiClient, problem_of
from runs.cli.plain_text import safe_line
from runs.cli.problems import Refused, Unreachable
from runs.cli.slim_httpx import httpx, httpx_sse

SHORTEST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 20.0
CODE_DONE, FIRST_FINAL_CODE = 1000, 4500  # streaming/protocol.py: from here on "do not come back by yourself"
ENDS = frozenset({"run.completed", "run.failed", "run.cancelled", "run.needs_reconciliation"})

type Frame = dict[str, Any]


@dataclass(slots=True)
class Pause:
    """Waits with full jitter: up to twice as long each time, from the start again after progress."""

    sleep: Callable[[float], None] = time.sleep
    tries: int = 0

    def reset(self) -> None:
        """Begin again with short waits."""
        self.tries = 0

    def wait(self, at_least: float = 0.0) -> None:
        """Wait before the next try."""
        most = min(LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS * 2**self.tries)
        self.tries += 1
        self.sleep(max(at_least, random.uniform(0, most)))


@dataclass(slots=True)
class RunStream:
    """The events of a run from a cursor on.

    on_cut(reason): the connection was lost; the run goes on.
    give_up_seconds: how long without a single frame before `Unreachable`.
    """

    client: ApiClient
    run_id: str
    cursor: str | None = None
    on_cut: Callable[[str], None] = lambda reason: None
    give_up_seconds: float = 300.0
    pause: Pause = field(default_factory=Pause)
    clock: Callable[[], float] = time.monotonic
    _has_ended: bool = False
    _lost_at: float | None = None
    _retry_after: float = 0.0
    _pieces: list[str] = field(default_factory=list)

    def frames(self) -> Iterator[Frame]:
        """Yield each frame once, in order, until the run has ended.

        Control frames (gap, snapshot, …) come too; a snapshot in parts comes as one. A frame is behind us, and the
        cursor is at it, once the caller asks for the next one.
        Raises: Refused (no such run, no right), Unreachable after `give_up_seconds` without a frame since a cut.
        """
        while not self._has_ended:
            reason = "the server closed the stream"
            try:
                for frame in self._connect():
                    self._lost_at = None
                    self.pause.reset()
                    yield frame
                    self._advance(frame)
                    if self._has_ended:
                        return
            except (httpx.TransportError, httpx_sse.SSEError) as error:
                reason = str(error) or type(error).__name__
            except Unreachable as problem:
                reason = problem.message
            if not self._has_ended:
                self._bridge(reason)

    def _bridge(self, reason: str) -> None:
        """Wait before the next connection, or give up."""
        now = self.clock()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at > self.give_up_seconds:
            back = f" --after {self.cursor}" if self.cursor else ""
            raise Unreachable(
                f"No contact for {self.give_up_seconds:.0f} s ({reason}). The run goes on at the server: "
                f"outlive run follow {self.run_id}{back}"
            )
        self.on_cut(reason)
        self.pause.wait(self._retry_after)
        self._retry_after = 0.0

    def _connect(self) -> Iterator[Frame]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.cursor is not None:
            headers["Last-Event-ID"] = self.cursor
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        self._pieces = []
        with self.client.http.stream(
            "GET", f"/runs/{self.run_id}/events", headers=headers, timeout=timeout
        ) as response:
            if response.status_code == 204:
                self._has_ended = True  # at the head of a stream that has ended
                return
            if not response.is_success:
                response.read()
                raise problem_of(response)
            for event in httpx_sse.EventSource(response).iter_sse():
                frame = self._join(_read_frame(event.event, event.data))
                if frame is not None and not self._is_behind(frame):
                    yield frame

    def _join(self, frame: Frame | None) -> Frame | None:
        """Put the parts of a large snapshot together; None until the last one is there."""
        if frame is None or frame["type"] != "snapshot" or "view" in frame:
            return frame
        if frame.get("part") == 1:
            self._pieces = []
        self._pieces.append(str(frame.get("text")))
        if frame.get("part") != frame.get("parts") or len(self._pieces) != frame.get("parts"):
            return None
        try:
            view = json.loads("".join(self._pieces))
        except ValueError:
            return None  # a broken snapshot moves no cursor: the next connection gets a whole one
        return {**frame, "view": view}

    def _is_behind(self, frame: Frame) -> bool:
        if "seq" not in frame or self.cursor is None:
            return False
        stream_id, _colon, seq = self.cursor.partition(":")
        return frame.get("stream_id") == stream_id and seq.isdigit() and int(frame["seq"]) <= int(seq)

    def _advance(self, frame: Frame) -> None:
        kind = frame.get("type")
        if "seq" in frame:
            self.cursor = f"{frame['stream_id']}:{frame['seq']}"
            if kind in ENDS:
                self._has_ended = True
        elif kind == "snapshot":
            self.cursor = frame.get("cursor") or self.cursor
        elif kind == "closing":
            self._close(frame)

    def _close(self, frame: Frame) -> None:
        code = frame.get("code")
        if code == CODE_DONE:
            self._has_ended = True
        elif isinstance(code, int) and code >= FIRST_FINAL_CODE:
            reason = safe_line(str(frame.get("reason")))
            raise Refused(403, "stream_closed", f"The server closed the stream for good: {reason}.", None)
        self._retry_after = float(frame.get("retry_after") or 0.0)


def _read_frame(name: str, data: str) -> Frame | None:
    try:
        frame = json.loads(data)
    except ValueError:
        return None  # a retry line, or something that a proxy put in; the cursor closes the hole
    return {"type": name, **frame} if isinstance(frame, dict) else None
