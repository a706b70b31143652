"""What a WebSocket client says: acknowledgements of what it has applied, and signs of life (PROTOCOL section 5)."""

import json
from typing import Any

from runs.reading.machine import Reading

ACK_EVENTS = 64
ACK_CHARS = 65_536
KEEPALIVE = json.dumps({"type": "keepalive"})


class Replies:
    """What to answer on one connection. The first events are acknowledged at once: flow control from the start."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._told = 0
        self._chars = ACK_CHARS

    def to(self, frames: list[Any], chars: int) -> str | None:
        """Say what to answer to a message whose frames have been applied; None for nothing."""
        _stream, _, digits = (self._reading.cursor or "").partition(":")
        seq = int(digits) if digits.isdigit() else 0
        if seq < self._told:
            self._told = 0  # the stream of a new attempt
        self._chars += chars
        kind = frames[-1].get("type") if frames and isinstance(frames[-1], dict) else None
        is_due = seq - self._told >= ACK_EVENTS or self._chars >= ACK_CHARS or kind == "caught_up"
        if is_due and seq > self._told:
            self._told, self._chars = seq, 0
            return json.dumps({"type": "ack", "seq": seq})
        return KEEPALIVE if kind == "heartbeat" else None
