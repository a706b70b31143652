"""The last events of one stream as encoded bytes, shared by all its followers, bounded in bytes.

Entries follow one another without a hole. What was lost on the way (a doorbell) empties the ring: followers that
are behind read the database instead. All rings of a process share one budget (streaming/budget.py).
"""

from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from runs.frames import GLUE
from streaming.budget import MOST_PAGE_BYTES, RingBudget

RING_BYTES = 256 * 1024
CHUNK_BYTES = MOST_PAGE_BYTES  # of one joined message

FORMS = 3  # joined, and encoded for sockets and for SSE

Encoder = Callable[[UUID, bytes], Any]


class Chunk:
    """Joined frames up to `last`, encoded once for each kind of connection."""

    __slots__ = ("_forms", "body", "last", "stream_id")

    def __init__(self, stream_id: UUID, last: int, body: bytes) -> None:
        self.stream_id, self.last, self.body = stream_id, last, body
        self._forms: dict[Encoder, Any] = {}

    def form(self, encode: Encoder) -> Any:
        """Encode it, or give what was encoded for another follower."""
        form = self._forms.get(encode)
        if form is None:
            form = self._forms[encode] = encode(self.stream_id, self.body)
        return form


class Ring:
    """What is known of the newest events. `head` is the newest seq that is known to be stored.

    The entries may end before the head: the database tells of an event while its doorbell is on the way.
    """

    def __init__(self, stream_id: UUID, budget: RingBudget, max_bytes: int = RING_BYTES) -> None:
        self.stream_id, self.head = stream_id, 0
        self._budget, self._max_bytes, self._bytes = budget, max_bytes, 0
        self._entries: deque[tuple[int, int, bytes]] = deque()
        self._memo: tuple[int, int, Chunk] | None = None

    def add(self, first: int, count: int, body: bytes) -> bool:
        """Take a doorbell: `count` frames from `first` on, or an empty body. False: it says nothing new."""
        last = first + count - 1
        tail = self._entries[-1][1] if self._entries else 0
        if last <= tail:
            return False
        if not body or (tail and first != tail + 1):
            self.clear()
        if body:
            self._append(first, last, body)
        is_new = last > self.head
        self.head = max(self.head, last)
        return is_new

    def _append(self, first: int, last: int, body: bytes) -> None:
        self._entries.append((first, last, body))
        self._bytes += len(body)
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft()[2])
        self._hold()

    def _hold(self) -> None:
        """Tell the budget; the newest chunk counts with both its forms."""
        joined = 0 if self._memo is None else FORMS * len(self._memo[2].body)
        self._budget.hold(self, self._bytes + joined, self._forget)

    def advance(self, head: int) -> bool:
        """Take the head from the database. False: it says nothing new."""
        if head <= self.head:
            return False
        self.head = head
        return True

    def reset(self, head: int) -> None:
        """Put the head back to what is stored, after a doorbell that was not true."""
        self.clear()
        self.head = head

    def clear(self) -> None:
        """Forget the bytes, not the head."""
        self._budget.drop(self)
        self._forget()

    def _forget(self) -> None:
        self._entries.clear()
        self._bytes, self._memo = 0, None

    def after(self, cursor: int) -> Chunk | None:
        """Give what follows a cursor; None when the ring does not reach back so far (read the database)."""
        memo = self._memo
        if memo is not None and memo[0] == cursor and memo[1] == self._entries[-1][1]:
            return memo[2]
        back: list[tuple[int, int, bytes]] = []
        for entry in reversed(self._entries):
            back.append(entry)
            if entry[0] <= cursor + 1:
                break
        if not back or back[-1][0] != cursor + 1:
            return None
        newest = back[0][1]
        parts: list[bytes] = []
        size, last = 0, cursor
        while back and (not parts or size + len(back[-1][2]) <= CHUNK_BYTES):
            _, last, body = back.pop()
            parts.append(body)
            size += len(body)
        chunk = Chunk(self.stream_id, last, GLUE.join(parts))
        self._memo = (cursor, newest, chunk)
        self._hold()
        return chunk
