"""What the readers of one process hold in memory together, however many they are and however many runs they follow.

Two bounds. The rings of all followed streams: the coldest is given up first, and its followers read the database. What
waits to be sent to connections that do not take it: the longest waiting is sent away first, and comes back with its
cursor. State without I/O.
"""

from collections.abc import Callable

RINGS_BYTES = 64 << 20
WAITING_BYTES = 64 << 20
# Of one message. A smaller page costs more for each event, a larger one is held longer by whoever does not read.
MOST_PAGE_BYTES, LEAST_PAGE_BYTES = 512 * 1024, 16 * 1024
TRANSPORT_BYTES = 64 * 1024  # above this a connection's write buffer takes no further message
COPIES = (
    3  # of a message, by a reader that waits: in the transport the one before, encoded, and the next one read ahead
)


class RingBudget:
    """The bytes of many rings."""

    def __init__(self, max_bytes: int = RINGS_BYTES) -> None:
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._held: dict[object, tuple[int, Callable[[], None]]] = {}  # the coldest first

    def hold(self, owner: object, size_bytes: int, give_up: Callable[[], None]) -> None:
        """Say how much an owner holds now. Others have to give up theirs for it; whoever spoke last never has to."""
        self.drop(owner)
        self._held[owner] = (size_bytes, give_up)
        self.held_bytes += size_bytes
        while self.held_bytes > self._max_bytes and len(self._held) > 1:
            coldest = next(iter(self._held))
            _, forget = self._held[coldest]
            self.drop(coldest)
            forget()

    def drop(self, owner: object) -> None:
        """Say that an owner holds nothing any more."""
        size_bytes, _ = self._held.pop(owner, (0, None))
        self.held_bytes -= size_bytes


class Sending[R]:
    """The readers whose message the transport has not taken yet, the longest waiting first."""

    def __init__(self, max_bytes: int = WAITING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[R, int] = {}

    def begin(self, reader: R, size_bytes: int) -> None:
        """A message of this size is being sent."""
        self._sizes[reader] = size_bytes

    def end(self, reader: R) -> None:
        """It was taken, or is given up."""
        self._sizes.pop(reader, None)

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def page_bytes(self) -> int:
        """The size of the next page: half of the bound, divided among all who wait."""
        fair = self._max_bytes // (2 * COPIES * (len(self._sizes) + 1))
        return max(LEAST_PAGE_BYTES, min(MOST_PAGE_BYTES, fair))

    def too_many(self) -> list[R]:
        """Choose those who must be sent away for the rest to be within the bound."""
        excess = sum(map(_held, self._sizes.values())) - self._max_bytes
        chosen: list[R] = []
        for reader, size_bytes in self._sizes.items():
            if excess <= 0:
                break
            chosen.append(reader)
            excess -= _held(size_bytes)
        return chosen


def _held(size_bytes: int) -> int:
    return TRANSPORT_BYTES + COPIES * size_bytes
