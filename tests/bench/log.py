"""What one follower got: each event once and in order, and when."""

import json
import re
import time
from typing import Any

# Frames are written by runs/frames.py with seq first; inside a delta the quotes are escaped, so nothing else fits.
SEQ = re.compile(rb'\{"seq":(\d+),')
SENT_AT = re.compile(rb'\\"t\\":([0-9.]+)')  # in a delta of the scripted model
CONTROL = b'{"type":"'


class Log:
    """Takes the messages of one follower.

    Args: after: the cursor with which it came; watch: types whose first arrival matters. All times are time.time().
    problems: what was lost, doubled or out of order, in words; empty is exact.
    """

    def __init__(self, *, after: int = 0, wants_delays: bool = False, watch: tuple[str, ...] = ()) -> None:
        self.last = after
        self.count = 0
        self.problems: list[str] = []
        self.delays: list[tuple[float, float]] = []  # (when the model made it, how long it took)
        self.first_at = self.last_at = 0.0
        self.controls: list[dict[str, Any]] = []
        self.arrivals: dict[str, float] = {}  # type of a watched event -> when the first one came
        self._wants_delays = wants_delays
        self._awaited = {kind: b'"type":"%b"' % kind.encode() for kind in watch}

    def take(self, message: bytes) -> None:
        """Take one WebSocket message (or lines of SSE, whose ids are not looked at)."""
        now = time.time()
        if message.startswith(CONTROL):
            self.controls.append(json.loads(message))
            return
        seqs = [int(seq) for seq in SEQ.findall(message)]
        if not seqs:
            return
        if seqs != list(range(self.last + 1, self.last + 1 + len(seqs))):
            self.problems.append(f"after {self.last} came {seqs[0]}..{seqs[-1]} ({len(seqs)})")
        self.first_at = self.first_at or now
        self.last, self.last_at, self.count = seqs[-1], now, self.count + len(seqs)
        if self._wants_delays:
            self.delays += [(sent := float(text), now - sent) for text in SENT_AT.findall(message)]
        for kind, sign in self._awaited.items():
            if kind not in self.arrivals and sign in message:
                self.arrivals[kind] = now

    def control(self, kind: str) -> dict[str, Any] | None:
        """Find a control frame."""
        return next((frame for frame in self.controls if frame["type"] == kind), None)
