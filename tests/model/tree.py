"""A parent run that has sent something itself, and its child: waiting, doubt, Stop and reconciliation of both.

This is where the code and the first model of a tree (a parent, a child, nothing else) differ. There a run with an
unknown outcome may not wait, so beside a child at work it could neither wait nor be put away, and would hold a worker
for as long as the child takes. Here it waits for its child, begins nothing meanwhile, and is put away after it.

    parent  running, waiting, stopping, doubt (needs_reconciliation), cancelled, completed (or failed: it is over)
    child   none, then the same words
    sent    none, open (dispatched), unknown, known
    asked   none, open, closed: a question of the parent, which nobody may ever answer
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.model.checker import Goal, Move

SETTLED = ("cancelled", "completed")
ENDED = (*SETTLED, "doubt")
MOST_WAKES = 4

RULES = {
    "wait_needs_a_child": "a run with something unknown waits only while a child of it is at work",
    "wait_not_beside_a_call": "a run does not wait with a call in flight",
    "wait_after_the_look": "a run waits only if nothing has woken it since it looked",
    "begin_not_beside_doubt": "nothing begins beside an unknown outcome",
    "begin_not_after_stop": "nothing begins after a stop",
    "park_after_the_children": "a run is put away only when its children have ended",
    "finish_without_doubt": "a run finishes only when everything that it has sent is known",
    "finish_after_the_children": "a run finishes only when its children have ended",
    "stop_takes_the_tree": "a stop takes the run and what is below it in one transaction",
    "stop_ends_after_the_children": "a stopped run ends only when its children have ended",
    "doubt_of_a_child_counts": "a child that ends in doubt is unknown to its parent too, until it is settled",
    "settled_child_is_told_again": "a child that is settled later is told to its parent again",
    "doubt_ends_with_the_last_unknown": "a run in doubt is settled with the last unknown outcome, its child's too",
}


@dataclass(frozen=True, slots=True)
class State:
    """open_children and unknown_ops are columns of the parent's row, and told what has been counted there."""

    parent: str = "running"
    child: str = "none"
    sent: str = "none"
    asked: str = "none"
    open_children: int = 0
    unknown_ops: int = 0
    told: str = "none"  # what the parent has counted of its child: none, ended, doubt, settled
    wakes: int = 0
    looked_at: int = -1  # the count of wakes that was read before the look; -1: it has not looked
    saw_end: bool = False  # what that look has shown
    is_stopped: bool = False


class Tree:
    """The model. off: rules that are taken out."""

    def __init__(self, off: Collection[str] = ()) -> None:
        self._off = off
        everybody = frozenset({"worker", "supervisor", "operator", "answerer"})
        self.goals = [
            Goal("the parent is settled", lambda s: s.parent in SETTLED, everybody),
            Goal("what is unknown comes before the operators", _is_told, frozenset({"worker", "supervisor"})),
        ]

    def has(self, rule: str) -> bool:
        """Say whether a rule stands."""
        assert rule in RULES
        return rule not in self._off

    def check(self, s: State) -> str | None:
        """Say what is wrong with a state."""
        child_is_doubtful = s.child == "doubt" and s.told != "settled"
        if s.parent in ENDED and s.child not in ("none", *ENDED):
            return "the parent ended while its child was at work"
        if s.parent in SETTLED and (s.sent in ("open", "unknown") or child_is_doubtful):
            return "the parent is settled, and something is not known"
        if s.parent == "waiting" and s.sent == "open":
            return "nobody listens to a call in flight"
        if s.unknown_ops < 0 or s.open_children < 0:
            return "something was counted twice"
        return None

    def moves(self, s: State) -> Iterator[Move[State]]:
        """Give everything that may happen next."""
        yield from self._begin(s)
        yield from self._receipts(s)
        yield from self._walk(s)
        yield from self._child(s)
        yield from self._answer(s)
        yield from self._stop(s)
        yield from self._settle(s)

    def _begin(self, s: State) -> Iterator[Move[State]]:
        is_doubtful = s.sent == "unknown" or s.told == "doubt"  # of what the parent has not been told it cannot know
        may = s.parent == "running" or not self.has("begin_not_after_stop")
        may = may and (s.unknown_ops == 0 or not self.has("begin_not_beside_doubt"))
        if not may or s.parent in ("waiting", *ENDED):
            return
        breaks = "begun after a stop" if s.is_stopped else "begun beside something unknown" if is_doubtful else None
        if s.child == "none":
            yield Move("spawn", "worker", replace(s, child="running", open_children=1, looked_at=-1), breaks)
        if s.sent == "none":
            yield Move("dispatch", "worker", replace(s, sent="open", looked_at=-1), breaks)

    def _receipts(self, s: State) -> Iterator[Move[State]]:
        if s.sent != "open":
            return
        yield Move("receipt", "worker", replace(s, sent="known"))
        yield Move("no receipt", "worker", replace(s, sent="unknown", unknown_ops=s.unknown_ops + 1))

    def _walk(self, s: State) -> Iterator[Move[State]]:
        """A claim holder comes to where it needs its child, or to its end."""
        if s.parent != "running":
            return
        if s.looked_at < 0:
            yield Move("look", "worker", replace(s, looked_at=s.wakes, saw_end=s.told != "none"))
            return
        is_fresh = s.looked_at == s.wakes
        if not is_fresh:
            yield Move("look again", "worker", replace(s, looked_at=-1))
        if s.asked == "none":
            yield Move("ask", "worker", replace(s, asked="open", looked_at=-1))
        has_reason = s.asked == "open" or (s.child != "none" and not s.saw_end)
        if has_reason and self._may_wait(s, is_fresh=is_fresh):
            yield Move("wait", "worker", replace(s, parent="waiting", looked_at=-1))
        if s.sent == "open":
            return
        if s.unknown_ops and (s.open_children == 0 or not self.has("park_after_the_children")):
            yield Move("park", "worker", replace(s, parent="doubt"))
        is_answered = s.asked != "open"
        if (
            is_answered
            and (s.unknown_ops == 0 or not self.has("finish_without_doubt"))
            and (s.open_children == 0 or not self.has("finish_after_the_children"))
        ):
            yield Move("finish", "worker", replace(s, parent="completed"))

    def _may_wait(self, s: State, *, is_fresh: bool) -> bool:
        """Guard of a wait: what the row says, not what the worker has seen."""
        if s.sent == "open" and self.has("wait_not_beside_a_call"):
            return False
        if s.unknown_ops and not s.open_children and self.has("wait_needs_a_child"):
            return False
        return is_fresh or not self.has("wait_after_the_look")

    def _child(self, s: State) -> Iterator[Move[State]]:
        ends = {"running": ("completed", "doubt"), "stopping": ("cancelled", "doubt")}.get(s.child, ())
        for word in ends:
            yield Move(f"child ends: {word}", "worker", replace(s, child=word))
        if s.child in ENDED and s.told == "none":
            doubts = s.child == "doubt" and self.has("doubt_of_a_child_counts")
            told = replace(s, told="doubt" if s.child == "doubt" else "settled", open_children=s.open_children - 1)
            told = replace(told, unknown_ops=told.unknown_ops + doubts)
            yield Move("outbox: the child's end is counted", "supervisor", self._woken(told))
        if s.child in SETTLED and s.told == "doubt" and self.has("settled_child_is_told_again"):
            told = replace(s, told="settled", unknown_ops=s.unknown_ops - self.has("doubt_of_a_child_counts"))
            yield Move("outbox: the child is settled", "supervisor", self._reconciled(told))

    def _woken(self, s: State) -> State:
        parent = "running" if s.parent == "waiting" else s.parent
        return replace(s, parent=parent, wakes=min(MOST_WAKES, s.wakes + 1))

    def _stop(self, s: State) -> Iterator[Move[State]]:
        if s.parent in ("running", "waiting"):
            takes = s.child == "running" and self.has("stop_takes_the_tree")
            below: dict[str, Any] = {"child": "stopping"} if takes else {}
            yield Move("stop", "person", replace(s, parent="stopping", is_stopped=True, looked_at=-1, **below))
        if s.parent == "stopping" and s.sent != "open":
            if s.open_children == 0 or not self.has("stop_ends_after_the_children"):
                word = "doubt" if s.unknown_ops else "cancelled"
                yield Move("the stop ends", "worker", replace(s, parent=word))
        if s.is_stopped and s.child == "running":
            yield Move("the child begins a call", "worker", s, "a child's call began after the tree was stopped")

    def _answer(self, s: State) -> Iterator[Move[State]]:
        if s.asked == "open" and s.parent in ("running", "waiting"):
            yield Move("answer", "answerer", self._woken(replace(s, asked="closed")))

    def _settle(self, s: State) -> Iterator[Move[State]]:
        if s.sent == "unknown":
            known = replace(s, sent="known", unknown_ops=s.unknown_ops - 1)
            yield Move("verdict", "operator", self._reconciled(known))
        if s.child == "doubt":
            yield Move("verdict on the child", "operator", replace(s, child="completed"))

    def _reconciled(self, s: State) -> State:
        is_last = s.unknown_ops == 0 and self.has("doubt_ends_with_the_last_unknown")
        if s.parent != "doubt" or not is_last:
            return s
        return replace(s, parent="cancelled" if s.is_stopped else "completed")


def _is_told(s: State) -> bool:
    return s.unknown_ops == 0 or s.parent not in ("running", "waiting")
