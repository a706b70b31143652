"""People who watch runs: each comes back with its cursor after every cut, over sockets and SSE, and loads nothing anew.

A viewer remembers its whole list as one running hash; equal hashes mean equal lists.
"""

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from runs.frames import GLUE
from tests.bench.client import Address, Refused, Subscription, subscribe, upgrade

API = "/api/v1/runs"
TERMINAL = tuple(b'"type":"run.%b"' % kind for kind in (b"completed", b"cancelled", b"failed"))
HEAD = re.compile(rb'\{"seq":(\d+),')
AWAY_SECONDS = 0.25  # the server is not there: about so long until the next try
DEAF_SECONDS = 35.0  # nothing heard for so long: the connection is dead (docs/PROTOCOL.md, 4)


@dataclass
class Events:
    """A list of events: how many, and a hash of their bytes in order."""

    count: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, frame: bytes) -> None:
        """Append an event."""
        self.count += 1
        self.digest.update(frame + b"\n")

    def same_as(self, other: "Events") -> bool:
        """Say whether both lists are equal."""
        return (self.count, self.digest.digest()) == (other.count, other.digest.digest())


class Viewer:
    """One client object, from the first event of a run to its last.

    Args: way: `socket`, `acknowledging` (a socket that acknowledges) or `sse`; stay: draws how many seconds it stays
    before it cuts the connection by itself, None for as long as it lasts.
    problems: what no viewer may see, in words: a hole, a repeat, an id that is not the event's; cuts: how each of its
    connections ended before the last event, as the server said it.
    """

    def __init__(
        self, address: Address, run_id: str, stream_id: str, *, way: str, stay: Callable[[], float] | None = None
    ) -> None:
        self.run_id, self.stream_id, self.way = run_id, stream_id, way
        self.events = Events()
        self.last = 0
        self.is_done = False
        self.connections = 0
        self.cuts: list[str] = []
        self.controls: Counter[str] = Counter()
        self.problems: list[str] = []
        self._address, self._stay = address, stay
        self._connection: Subscription | None = None
        self._sse_id = b""
        self._farewell = ""

    async def watch(self) -> None:
        """Return after the run's last event."""
        while not self.is_done:
            try:
                self._connection = await subscribe(self._address, self._request(), self._take)
            except (OSError, Refused):
                await asyncio.sleep(random.uniform(0.5, 1.5) * AWAY_SECONDS)
                continue
            self.connections += 1
            self._sse_id, self._farewell = b"", "without a word"
            await self._stay_for(self._connection)
            self._connection.cut()
            if not self.is_done:
                self.cuts.append(self._farewell)

    async def _stay_for(self, connection: Subscription) -> None:
        leaves_after = self._stay() if self._stay is not None else float("inf")
        loop = asyncio.get_running_loop()
        leaves_at = loop.time() + leaves_after
        while not connection.closed.done() and loop.time() < leaves_at:
            before = connection.received_bytes
            await asyncio.wait([connection.closed], timeout=min(DEAF_SECONDS, leaves_at - loop.time()))
            if connection.received_bytes == before:
                return

    def _request(self) -> bytes:
        cursor = f"{self.stream_id}:{self.last}"
        if self.way == "sse":
            path = f"{API}/{self.run_id}/events"
            return self._address.request("GET", path, Accept="text/event-stream", Last_Event_ID=cursor)
        return upgrade(self._address, f"/ws/v1/runs/{self.run_id}/?after={cursor}")

    def _take(self, message: bytes) -> None:
        if self.way == "sse":
            self._take_lines(message)
        elif message.startswith(b"["):
            for frame in message[1:-1].split(GLUE):
                self._apply(frame)
            if self.way == "acknowledging" and self._connection is not None:
                self._connection.say(b'{"type":"ack","seq":%d}' % self.last)
        else:
            self._note(message)

    def _take_lines(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if line.startswith(b"id: "):
                self._sse_id = line[4:]
            elif line.startswith(b'data: {"seq":'):
                self._apply(line[6:])
                if self._sse_id != f"{self.stream_id}:{self.last}".encode():
                    self.problems.append(f"{self._sse_id!r} at {self.last}")
            elif line.startswith(b'data: {"type":'):
                self._note(line[6:])

    def _apply(self, frame: bytes) -> None:
        head = HEAD.match(frame)
        seq = int(head.group(1)) if head else 0
        if seq != self.last + 1:
            self.problems.append(f"{seq} after {self.last}")
        self.last = seq
        self.events.add(frame)
        self.is_done = self.is_done or any(sign in frame for sign in TERMINAL)

    def _note(self, control: bytes) -> None:
        found = re.match(rb'\{"type":"([a-z_]+)"', control)
        kind = found.group(1).decode() if found else "?"
        self.controls[kind] += 1
        if kind == "closing":
            self._farewell = control.decode()
        if kind in ("gap", "snapshot"):
            self.problems.append(f"{kind} at {self.last}")
