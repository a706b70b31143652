"""Reading: one reader of one run, over any number of connections. Pure: frames go in, items and decisions come out.

    begin --> take, applied, take, applied, ... --> lost --> (wait) --> begin
                     |                                ^
                     |-- OutOfStep -------------------'
                     |-- StreamRefused: the server's last word
                     '-- is_over: the stream has ended

The cursor is the last event that the caller has *applied*; nothing else is kept from one connection to the next. An
event is given out if it is the next one after the cursor, ignored if it is a repeat, and everything else is OutOfStep:
the connection is dropped and the cursor brought to the server again. docs/PROTOCOL.md sections 3, 4 and 5.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any

from runs.fold_parts import count, first_seq
from runs.reading.errors import FIRST_FINAL_CODE, OutOfStep, StreamLost, refusal
from runs.reading.items import Event, Frame, Gap, Item, Note, Snapshot

SHORTEST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 20.0
SILENCE_SECONDS = 35.0  # two heartbeats (15 s each) and some: a connection that says nothing for so long is dead
DONE = 1000
MOST_DOUBLINGS = 10
LONGEST_ASKED_SECONDS = 3600.0  # of a server that asks to come back in a year
MOST_SNAPSHOT_CHARS = 256 << 20  # of all its parts: one that never ends must not fill the memory
_CURSOR = re.compile(r"([!-9;-~]{1,200}):([0-9]{1,16})")


class Reading:
    """Where a reader stands.

    Args: after: the cursor to go on from, None for the start; give_up_seconds: how long without progress before
    StreamLost, None for ever; uniform: draws between two numbers.
    """

    def __init__(
        self,
        after: str | None = None,
        *,
        give_up_seconds: float | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.cursor = after
        self.is_over = False
        self.is_ready = False  # this connection has got as far as the server's first frame
        self.is_closed = False  # the server has said that nothing more comes on this connection
        self._give_up_seconds, self._uniform = give_up_seconds, uniform
        self._tries = 0
        self._lost_at: float | None = None
        self._retry_after = 0.0
        self._gap: Gap | None = None
        self._pieces: list[str] = []
        self._pieces_chars = 0

    def begin(self) -> None:
        """Start a new connection: what the last one had not finished is void."""
        self.is_ready = self.is_closed = False
        self._retry_after, self._gap, self._pieces, self._pieces_chars = 0.0, None, [], 0

    def take(self, frame: Any) -> list[Item]:
        """Judge one frame and give what the caller is to see of it; `applied` must follow for each item.

        Raises: OutOfStep (drop the connection), StreamRefused (the server's last word).
        """
        if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
            raise OutOfStep("something came that is no frame")
        if "seq" in frame:
            return self._event(frame)
        kind = frame["type"]
        if kind == "snapshot":
            return self._snapshot(frame)
        if kind == "gap":
            self._gap = Gap(frame)  # told with its snapshot: a cut between the two would tell it twice
            return []
        if kind == "ready":
            self.is_ready = True
        elif kind == "closing":
            self._close(frame)
        return [Note(frame)]

    def applied(self, item: Item) -> None:
        """The caller has taken the item; only now does the cursor move."""
        if isinstance(item, Event | Snapshot):
            self.cursor = item.cursor
        elif not isinstance(item, Note) or item.frame["type"] != "caught_up":
            return
        self._tries, self._lost_at = 0, None  # progress

    def lost(self, reason: str, *, now: float, retry_after: float = 0.0) -> float:
        """Say how many seconds to wait before the next connection: full jitter, longer each time without progress.

        Args: now: of any clock that only goes forward; retry_after: what the server asked for besides `closing`.
        Raises: StreamLost.
        """
        self._lost_at = now if self._lost_at is None else self._lost_at
        asked = max(self._retry_after, _seconds(retry_after))
        if self._give_up_seconds is not None and now + asked - self._lost_at > self._give_up_seconds:
            raise StreamLost(seconds=self._give_up_seconds, reason=reason, cursor=self.cursor)
        self._tries = min(self._tries + 1, MOST_DOUBLINGS)
        most = min(LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS * 2**self._tries)
        return max(asked, self._uniform(SHORTEST_WAIT_SECONDS, most))

    def _event(self, frame: Frame) -> list[Item]:
        stream, seq, first = frame.get("stream_id"), frame["seq"], first_seq(frame)
        if not isinstance(stream, str) or not isinstance(seq, int) or first is None:
            raise OutOfStep("an event came without its place")
        if _CURSOR.fullmatch(f"{stream}:{seq}") is None:
            raise OutOfStep("an event came with a place that is no cursor")
        here, known = self._place()
        if here == stream and seq <= known:
            return []
        if here not in (None, stream) or first != known + 1:
            raise OutOfStep(f"event {stream}:{first} does not follow {self.cursor}")
        return [Event(frame)]

    def _snapshot(self, frame: Frame) -> list[Item]:
        view, cursor = frame.get("view"), frame.get("cursor")
        if "view" not in frame:
            text = self._piece(frame)
            if text is None:
                return []
            view = _read_view(text)
        if not isinstance(view, dict) or not isinstance(cursor, str) or _CURSOR.fullmatch(cursor) is None:
            raise OutOfStep("a snapshot came without a view or a cursor")
        gap, self._gap = self._gap, None
        whole = Snapshot({"type": "snapshot", "cursor": cursor, "part": 1, "parts": 1, "view": view})
        return [whole] if gap is None else [gap, whole]

    def _piece(self, frame: Frame) -> str | None:
        """Take one part of a snapshot; gives the whole text with the last one."""
        part, parts, piece = count(frame.get("part")), count(frame.get("parts")), frame.get("text")
        if part != len(self._pieces) + 1 or parts is None or part > parts or not isinstance(piece, str):
            raise OutOfStep("the parts of a snapshot are not in order")
        self._pieces.append(piece)
        self._pieces_chars += len(piece)
        if self._pieces_chars > MOST_SNAPSHOT_CHARS:
            raise OutOfStep("a snapshot came without an end")
        if part < parts:
            return None
        text, self._pieces, self._pieces_chars = "".join(self._pieces), [], 0
        return text

    def _close(self, frame: Frame) -> None:
        self.is_closed = True
        code = frame.get("code")
        if code == DONE:
            self.is_over = True
        elif isinstance(code, int) and FIRST_FINAL_CODE <= code < 5000:
            raise refusal(code, str(frame.get("reason")))
        self._retry_after = _seconds(frame.get("retry_after"))

    def _place(self) -> tuple[str | None, int]:
        place = _CURSOR.fullmatch(self.cursor or "")
        return (place[1], int(place[2])) if place is not None else (None, 0)


def read_message(text: str | bytes) -> list[Any]:
    """Read what one WebSocket message or one SSE event carries: a control frame, or one or more events.

    Raises: OutOfStep.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutOfStep("something came that is not JSON") from error
    return message if isinstance(message, list) else [message]


def _seconds(asked: Any) -> float:
    """Read how long a server asks to stay away, within what can be waited for."""
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:  # NaN is not, either
        return 0.0
    return float(min(asked, LONGEST_ASKED_SECONDS))


def _read_view(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutOfStep("a snapshot came broken") from error
