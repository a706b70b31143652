"""The input of one pilot on its way to the terminal: numbered, kept until it has gone in. State without I/O."""

import asyncio

from streaming.shells.protocol import UNTAKEN_BYTES

AHEAD_BYTES = 16 * 1024  # given to the terminal and not taken yet: what a permit may become void for at once


class Typing:
    """Bytes from `taken` (what the terminal has) to `end` (what the client has sent).

    `wake` is set whenever there may be something to pass on.
    """

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.taken = 0
        self.is_shut = False
        self._kept = bytearray()
        self._given = 0

    @property
    def end(self) -> int:
        """The offset of the next byte that the client is to send."""
        return self.taken + len(self._kept)

    @property
    def is_full(self) -> bool:
        """The client has sent more than it may."""
        return len(self._kept) > UNTAKEN_BYTES

    def begin(self, taken: int) -> None:
        """Forget everything: a pilot begins where the terminal's input stands."""
        self.taken = self._given = taken
        self._kept.clear()

    def add(self, offset: int, data: bytes) -> bool:
        """Take what the client sends; what came before is taken no second time. False: something is missing."""
        known = self.end - offset
        if known < 0:
            return False
        if not self.is_shut:
            self._kept += data[known:]
            self.wake.set()
        return True

    def next(self) -> tuple[int, bytes] | None:
        """Give the next bytes that may be asked for, and their offset; None while there is no room or nothing."""
        begin = self._given - self.taken
        data = bytes(self._kept[begin:AHEAD_BYTES])
        return (self._given, data) if data else None

    def give(self, offset: int) -> None:
        """The terminal was given everything up to here."""
        self._given = offset

    def take(self, offset: int) -> None:
        """The terminal has taken everything up to here."""
        if self.taken < offset <= self.end:
            del self._kept[: offset - self.taken]
            self.taken = offset
            self._given = max(self._given, offset)
            self.wake.set()

    def again(self, offset: int) -> None:
        """The terminal wants what begins here (again)."""
        self._given = max(self.taken, min(offset, self.end))
        self.wake.set()

    def shut(self) -> None:
        """Nothing goes in any more."""
        self.is_shut = True
        self.begin(self.taken)
