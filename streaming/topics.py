"""What can be followed: the event stream of an attempt, and a tenant's feed of changed runs. State without I/O."""

from uuid import UUID

from runs.ids import BadId, parse_id
from runs.states import TERMINAL_EVENT
from streaming.budget import RingBudget
from streaming.reader import Reader
from streaming.reads import Row
from streaming.ring import Ring

# Only a hint that makes the hub read the row at once: a nested value of a tool may hold these bytes too.
_TERMINAL_HINTS = tuple(f'"type":"{kind}"'.encode() for kind in TERMINAL_EVENT.values())
MAX_PENDING = 500  # changed runs that one follower of a feed has not been told yet
MAX_KNOWN = 2_000  # runs of a tenant whose version a feed remembers; of an older one it may tell a change twice


class BadBell(ValueError):
    """A doorbell that cannot be read."""


class Stream:
    """One followed stream of events."""

    def __init__(self, run_id: UUID, stream_id: UUID, budget: RingBudget) -> None:
        self.run_id, self.id = run_id, stream_id
        self.channel = stream_channel(stream_id)
        self.ring = Ring(stream_id, budget)
        self.readers: set[Reader] = set()
        self.floor = 1
        self.ended_at: int | None = None  # the head when the row said that the attempt has ended
        self.successor: UUID | None = None  # the stream of a newer attempt
        self.is_due = False  # its row is worth a look now
        self.version = 0  # of the run's row
        self.watchers: set[Reader] = set()  # those who want to know of each change of the row

    def notice(self, version: int) -> None:
        """Take the version of the row."""
        if version > self.version:
            self.version = version
            for reader in tuple(self.watchers):
                reader.poke()

    def hear(self, payload: bytes) -> bool:
        """Take a doorbell. False: it says nothing new. Raises: BadBell."""
        try:
            first, count, body = payload.split(b" ", 2)
            is_new = self.ring.add(int(first), int(count), body)
        except ValueError as error:
            raise BadBell(self.channel) from error
        if is_new and (not body or any(hint in body for hint in _TERMINAL_HINTS)):
            self.is_due = True
        return is_new

    def learn(self, row: Row) -> bool:
        """Take what a row says. False: it says nothing new."""
        if row.stream_id != self.id:
            is_new = self.successor != row.stream_id
            self.successor = row.stream_id
            return is_new
        is_new = self.ring.advance(row.last_seq)
        self.floor = row.floor_seq
        if row.is_ended and self.ended_at is None:
            self.ended_at = row.last_seq
            is_new = True
        return is_new

    def poke(self) -> None:
        """Wake all followers."""
        for reader in tuple(self.readers):
            reader.poke()

    def close(self) -> None:
        """Give up what it holds: nobody follows it any more."""
        self.ring.clear()


class Feed:
    """Which runs of a tenant have changed, told to each follower once."""

    is_due = False

    def __init__(self, tenant_id: UUID) -> None:
        self.tenant_id = tenant_id
        self.channel = feed_channel(tenant_id)
        self.readers: set[Reader] = set()
        self.has_start = False  # the database has told where the tenant's runs stand
        self._known: dict[UUID, int] = {}
        self._pending: dict[Reader, dict[UUID, int]] = {}

    def hear(self, payload: bytes) -> bool:
        """Take a doorbell, `run_<hex> <version>`. False: it says nothing new. Raises: BadBell."""
        name, _, version = payload.partition(b" ")
        try:
            return self._change(parse_id("run", name.decode("ascii")), int(version))
        except (BadId, ValueError) as error:
            raise BadBell(self.channel) from error

    def learn(self, versions: dict[UUID, int]) -> bool:
        """Take what the database says; the first time it only says where things stand. False: nothing new."""
        if not self.has_start:
            self.has_start = True
            self._known = {**versions, **self._known}
            return False
        return any([self._change(run_id, version) for run_id, version in versions.items()])

    def take(self, reader: Reader) -> dict[UUID, int]:
        """Give what a follower has not been told yet; run ids with the newest version."""
        return self._pending.pop(reader, {})

    def forget(self, reader: Reader) -> None:
        """Drop what was kept for a follower that left."""
        self._pending.pop(reader, None)

    def poke(self) -> None:
        """Wake all followers."""
        for reader in tuple(self.readers):
            reader.poke()

    def _change(self, run_id: UUID, version: int) -> bool:
        if self._known.get(run_id, 0) >= version:
            return False
        self._known.pop(run_id, None)  # a run that changes is the newest one
        self._known[run_id] = version
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        for reader in self.readers:
            pending = self._pending.setdefault(reader, {})
            # A follower that does not keep up is told the newest changes; its page reloads the list anyway.
            if len(pending) >= MAX_PENDING and run_id not in pending:
                del pending[next(iter(pending))]
            pending[run_id] = version
        return True

    def close(self) -> None:
        """Nobody follows it any more; it goes as it is."""


def stream_channel(stream_id: UUID) -> bytes:
    """Name the doorbell channel of a stream (runs/frames.py, `bell`)."""
    return b"r:" + stream_id.hex.encode()


def feed_channel(tenant_id: UUID) -> bytes:
    """Name the doorbell channel of a tenant (runs/frames.py, `tenant_bell`)."""
    return b"t:" + tenant_id.hex.encode()
