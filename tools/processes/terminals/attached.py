"""One connection at a terminal's ward: what it is still to be sent, and nothing more than it can take. stdlib only."""

import contextlib
import socket
import time
from typing import Any

from . import frames
from .ring import ByteRing

OUTPUT_BYTES = 64 * 1024  # of one frame
WAITING_BYTES = 256 * 1024  # packed for a socket that does not take it yet
MOST_WAITING_BYTES = 2 * WAITING_BYTES  # with news, which no ring keeps: whoever leaves more than that is let go
STALE_SECONDS = 5.0


class Attached:
    """Somebody who watches, types, keeps the screen, or owns the terminal; `role` is None until they have said it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.role: str | None = None
        self.is_quiet = False  # it is sent no output
        self.generation = 0
        self.line: str | None = None  # what an agent asks about
        self.offset = 0  # of the next output byte that it is to be sent
        self.is_over = False
        self._reader = frames.Reader()
        self._waiting = bytearray()
        self._moved_at = time.monotonic()

    def receive(self) -> list[frames.Frame]:
        """Give the frames that have come. At the end of the connection, or of sense, `is_over` is set."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return []
        try:
            return self._reader.feed(data)
        except frames.BadFrame:
            self.is_over = True
            return []

    @property
    def waiting_bytes(self) -> int:
        """How much waits for its socket."""
        return len(self._waiting)

    def say(self, kind: bytes, body: dict[str, Any]) -> None:
        """Have it told something."""
        self._add(frames.pack_json(kind, body))

    def say_taken(self, offset: int) -> None:
        """Acknowledge its input."""
        self._add(frames.pack_taken(offset))

    def _add(self, frame: bytes) -> None:
        if len(self._waiting) > MOST_WAITING_BYTES:
            self.is_over = True  # it comes back where its output stands
        else:
            self._waiting += frame

    def refuse(self, reason: str) -> None:
        """Send it away with a word."""
        self.say(frames.WELCOME, {"refused": reason})
        self.flush(None)
        self.is_over = True

    def flush(self, ring: ByteRing | None) -> None:
        """Send what the socket takes now. Whoever falls behind the ring is told what they miss, and slows nobody."""
        while not self.is_over:
            if ring is not None and self._wants_output() and len(self._waiting) < WAITING_BYTES:
                self._pack(ring)
            if not self._waiting:
                return
            try:
                sent = self.socket.send(self._waiting)
            except BlockingIOError:
                return
            except OSError:
                self.is_over = True
                return
            del self._waiting[:sent]
            self._moved_at = time.monotonic()

    def _pack(self, ring: ByteRing) -> None:
        if self.offset < ring.start:
            self._waiting += frames.pack_skipped(self.offset, ring.start)
            self.offset = ring.start
        data = ring.read(self.offset, OUTPUT_BYTES)
        if data:
            self._waiting += frames.pack_bytes(frames.OUTPUT, self.offset, data)
            self.offset += len(data)

    def has_more(self, ring: ByteRing) -> bool:
        """Say whether something waits for its socket."""
        return bool(self._waiting) or (self._wants_output() and self.offset < ring.end)

    def _wants_output(self) -> bool:
        return self.role is not None and not self.is_quiet

    def holds_back(self, ring: ByteRing, most_bytes: int) -> bool:
        """Say whether the program has to wait for it: a screen must see every byte, as long as it moves at all."""
        is_behind = self.role == "screen" and ring.end - self.offset + len(self._waiting) > most_bytes
        return is_behind and time.monotonic() - self._moved_at < STALE_SECONDS

    def close(self) -> None:
        """Let it go."""
        with contextlib.suppress(OSError):
            self.socket.close()
