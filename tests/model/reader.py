"""A reader of a run whose log is trimmed at its beginning and joined in its middle: cursor, doorbells, pages, snapshot.

The first model of a reader (../shared/model/reader.py) knows only the trimming. Here the deltas of an ended text become
one frame too, which has the seq of its last delta (runs/compaction.py, RULES H18).

    stored     1 start   2 delta   3 delta   4 end          each is a frame of one seq
    joined     1 start   2-3 one frame       4 end
    trimmed    below `floor` nothing is stored any more

A reader's view is (attempt, k): it has folded exactly what 1 to k stand for. A hole or a repeat is a broken rule.
Doorbells carry frames, and are lost, doubled and swapped.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tests.model.checker import Goal, Move

HEAD, ATTEMPTS, BELLS = 4, 2, 1  # with two bells under way it holds as well, in four times the states
TEXT = (2, 3)  # the deltas

RULES = {
    "apply_no_hole": "a doorbell's frame is applied only at cursor + 1 of the same stream",
    "contiguous": "a page's first frame begins at cursor + 1; an empty page means nothing new only at the head",
    "frame_begins_at_its_first": "a joined frame begins at the first seq that it stands for, not at its own",
    "stream_id": "a cursor names its stream",
    "snapshot_from_one_statement": "a snapshot's view and cursor come from one statement",
    "poll": "a follower reads the database at least every so often",
    "gap_not_empty": "a cursor below the floor or of an older stream gets a gap and a snapshot",
    "floor_below_checkpoint": "the floor never passes checkpoint + 1",
    "join_below_checkpoint": "only what a checkpoint covers is joined",
    "join_replaces": "joining puts a frame in the place of what it takes away",
    "new_attempt": "who follows an ended stream is told of a newer attempt by the run's row",
}

type Frame = tuple[int, int]  # first and last seq that it stands for


@dataclass(frozen=True, slots=True)
class State:
    """The store (of the current attempt), the doorbells under way, and the reader."""

    attempt: int = 1
    head: int = 0
    floor: int = 1
    checkpoint: int = 0
    is_joined: bool = False
    bells: tuple[tuple[int, int], ...] = ()
    view: tuple[int, int] = (1, 0)
    phase: str = "start"  # start, look, page, snapshot, live
    seen_floor: int = 1
    seen_view: tuple[int, int] | None = None  # of a snapshot in two statements

    @property
    def is_ended(self) -> bool:
        return self.head == HEAD

    def frames(self, after: int) -> list[Frame]:
        """Give what is stored after a seq."""
        seqs = [seq for seq in range(1, self.head + 1) if not (self.is_joined and seq == TEXT[0])]
        begins = {TEXT[1]: TEXT[0]} if self.is_joined else {}
        return [(begins.get(seq, seq), seq) for seq in seqs if seq > after and seq >= self.floor]


class Reader:
    """The model. off: rules that are taken out."""

    def __init__(self, off: Collection[str] = ()) -> None:
        self._off = off
        self.goals = [
            Goal("the reader has all of it by polling alone", lambda s: s.view == (s.attempt, s.head), frozenset({"r"}))
        ]

    def has(self, rule: str) -> bool:
        """Say whether a rule stands."""
        assert rule in RULES
        return rule not in self._off

    def check(self, s: State) -> str | None:
        """Say what is wrong with a state."""
        attempt, seq = s.view
        is_beyond = attempt > s.attempt or (attempt == s.attempt and seq > s.head)
        return "the reader shows what is not stored" if is_beyond else None

    def moves(self, s: State) -> Iterator[Move[State]]:
        """Give everything that may happen next."""
        yield from self._store(s)
        yield from self._bells(s)
        yield from self._reader(s)

    def _store(self, s: State) -> Iterator[Move[State]]:
        if not s.is_ended:
            more = replace(s, head=s.head + 1)
            yield Move(f"append {more.head}, no bell", "w", more)
            if s.phase != "start" and len(s.bells) < BELLS:
                bells = tuple(sorted((*s.bells, (s.attempt, more.head))))
                yield Move(f"append {more.head}, bell", "w", replace(more, bells=bells))
        elif s.attempt < ATTEMPTS:
            anew = replace(s, attempt=s.attempt + 1, head=0, floor=1, checkpoint=0, is_joined=False)
            yield Move("a new attempt", "person", anew)
        if s.checkpoint < s.head:
            yield Move(f"checkpoint at {s.head}", "s", replace(s, checkpoint=s.head))
        if s.floor <= (s.checkpoint if self.has("floor_below_checkpoint") else s.head):
            yield Move(f"trim to {s.floor + 1}", "s", replace(s, floor=s.floor + 1))
        if s.is_ended and not s.is_joined and s.floor <= TEXT[0]:
            if s.checkpoint >= TEXT[1] or not self.has("join_below_checkpoint"):
                breaks = None if self.has("join_replaces") else "the log has a hole above its floor"
                yield Move("join the text", "s", replace(s, is_joined=True), breaks)

    def _bells(self, s: State) -> Iterator[Move[State]]:
        attempt, seq = s.view
        for index, bell in enumerate(s.bells):
            rest = s.bells[:index] + s.bells[index + 1 :]
            yield Move(f"bell {bell} lost", "fault", replace(s, bells=rest))
            if s.phase != "live":
                continue
            for kept in (rest, s.bells):
                rung = replace(s, bells=kept)
                if bell == (attempt, seq + 1):
                    yield Move(f"bell {bell}", "fault", replace(rung, view=bell))
                elif not self.has("apply_no_hole"):
                    yield Move(f"bell {bell}", "fault", replace(rung, view=bell), "a hole or a repeat by a doorbell")
                elif bell > s.view:
                    yield Move(f"bell {bell}: look", "fault", replace(rung, phase="look"))
                else:
                    yield Move(f"bell {bell}: known", "fault", rung)

    def _reader(self, s: State) -> Iterator[Move[State]]:
        if s.phase == "start":
            yield Move("subscribe", "r", replace(s, phase="look"))
            return
        yield Move("the connection is cut", "fault", replace(s, phase="start", bells=(), seen_view=None))
        if s.phase == "look":
            yield Move("look at the floor", "r", replace(s, phase="page", seen_floor=s.floor))
        elif s.phase == "page":
            yield self._page(s)
        elif s.phase == "snapshot":
            yield self._snapshot(s)
        elif self.has("poll"):
            yield Move("poll", "r", replace(s, phase="look"))

    def _page(self, s: State) -> Move[State]:
        """The next frame; the floor was read in an earlier statement."""
        attempt, seq = s.view
        gap = replace(s, phase="snapshot")
        if attempt != s.attempt and self.has("stream_id"):
            if self.has("gap_not_empty") and self.has("new_attempt"):
                return Move("an older stream: gap", "r", gap)
            return Move("nothing new in the older stream", "r", replace(s, phase="live"))
        if seq > s.head:
            return Move("ahead of the head: gap", "r", gap)
        if seq < s.seen_floor - 1:
            if self.has("gap_not_empty"):
                return Move("below the floor: gap", "r", gap)
            return Move("what is left", "r", replace(s, view=(attempt, s.floor)), "a silent hole below the floor")
        frames = s.frames(seq)
        if not frames:
            if seq < s.head and self.has("contiguous"):
                return Move("an empty page below the head: gap", "r", gap)
            breaks = "nothing new, although events were missed" if seq < s.head else None
            return Move("nothing new", "r", replace(s, phase="live"), breaks)
        first, last = frames[0]
        begins = first if self.has("frame_begins_at_its_first") else last
        if begins != seq + 1 and self.has("contiguous"):
            return Move("the page does not follow: gap", "r", gap)
        breaks = None
        if first != seq + 1:
            breaks = "a hole in the page" if first > seq + 1 else "a joined text shows again what was shown"
        elif attempt != s.attempt:
            breaks = "events of a newer attempt in the view of the older one"
        return Move(f"page {frames[0]}", "r", replace(s, view=(s.attempt, last), phase="look"), breaks)

    def _snapshot(self, s: State) -> Move[State]:
        """Fold the checkpoint and what follows it; the cursor with it, or in a second statement."""
        at = s.checkpoint
        for first, last in s.frames(at):
            if first != at + 1:
                return Move("fold", "r", s, "a snapshot with a hole" if first > at + 1 else "a snapshot with a repeat")
            at = last
        if at != s.head:
            return Move("fold", "r", s, "a snapshot with a hole")
        here = (s.attempt, s.head)
        if self.has("snapshot_from_one_statement"):
            return Move(f"snapshot at {here}", "r", replace(s, view=here, phase="look"))
        if s.seen_view is None:
            return Move(f"read the view at {here}", "r", replace(s, seen_view=here))
        breaks = None if s.seen_view == here else "a snapshot's cursor is not its view's"
        return Move(f"read the cursor {here}", "r", replace(s, view=here, seen_view=None, phase="look"), breaks)
