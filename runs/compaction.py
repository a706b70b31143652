"""Compaction: consecutive deltas of one text become one `text.compacted` frame with the same fold. Pure.

    1 text.start   2 delta "Hel"   3 delta "lo"   4 usage   5 delta "!"   6 text.end
    1 text.start   3 compacted 2-3 "Hello"        4 usage   5 delta "!"   6 text.end

A frame stands for consecutive seqs only and takes the place of its last one, so a log stays without a hole: the first
seq of each frame is the seq of the one before it, + 1 (RULES H18). The law: fold(compacted log) == fold(log), and the
same from each snapshot whose seq is not inside of a compacted range; tests/runs/test_fold.py.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runs.fold_parts import count

Frame = dict[str, Any]

MAX_SPAN = 1000  # seqs of one frame: a page of events never ends in the middle of one (streaming/reads.py)
MAX_TEXT = 64_000  # characters of one frame


@dataclass(frozen=True, slots=True)
class Span:
    """Deltas from seq `first` to `last`, at least two, and the frame that stands for them."""

    first: int
    last: int
    frame: Frame


def anything(message_id: str) -> bool:
    """Let the deltas of every text be joined."""
    return True


def find_spans(frames: Iterable[Frame], *, may_join: Callable[[str], bool] = anything) -> list[Span]:
    """Find what can be joined. Args: may_join: says of a text, by its message id, whether its deltas may be."""
    return [span for group in _groups(frames, may_join) if (span := _span_of(group)) is not None]


def coalesce(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Give the log with all its deltas joined: folding that is cheaper, for each delta copies the whole text so far."""
    for group in _groups(frames, anything):
        span = _span_of(group)
        if span is None:
            yield from group
        else:
            yield span.frame


def _groups(frames: Iterable[Frame], may_join: Callable[[str], bool]) -> Iterator[list[Frame]]:
    """Cut a log into runs of deltas that belong together, and everything else one by one."""
    group: list[Frame] = []
    place: tuple[Any, ...] | None = None  # where the group's deltas belong; None: it takes no more
    size = 0
    for frame in frames:
        here = _place_of(frame, may_join)
        fits = here is not None and here == place and frame["seq"] == group[-1]["seq"] + 1 and len(group) < MAX_SPAN
        if fits and size + len(frame["data"]["delta"]) <= MAX_TEXT:
            group.append(frame)
            size += len(frame["data"]["delta"])
            continue
        if group:
            yield group
        group, place = [frame], here
        size = len(frame["data"]["delta"]) if here is not None else 0
    if group:
        yield group


def _place_of(frame: Any, may_join: Callable[[str], bool]) -> tuple[Any, ...] | None:
    """Say where a delta belongs; None for everything that is no sound delta of a text that may be joined."""
    if not isinstance(frame, dict) or frame.get("type") != "text.delta" or not count(frame.get("seq")):
        return None
    data, attempt = frame.get("data"), count(frame.get("attempt"))
    if attempt is None or not isinstance(data, dict) or not isinstance(data.get("delta"), str):
        return None
    place = (data.get("message_id"), frame.get("stream_id"), frame.get("run_id"), frame.get("step_id", ""))
    if not all(isinstance(one, str) for one in place) or not may_join(data["message_id"]):
        return None
    return (*place, attempt)


def _span_of(group: list[Frame]) -> Span | None:
    if len(group) < 2:
        return None
    first, last = group[0]["seq"], group[-1]["seq"]
    text = "".join([frame["data"]["delta"] for frame in group])
    data = {"message_id": group[-1]["data"]["message_id"], "from_seq": first, "to_seq": last, "text": text}
    return Span(first, last, {**group[-1], "type": "text.compacted", "data": data})
