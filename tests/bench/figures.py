"""Percentiles, medians over repetitions, and the one JSON line that a row prints. Pure."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

type Points = dict[str, float]
POINTS = {"p50": 0.50, "p99": 0.99}


def points(seconds: Sequence[float]) -> Points:
    """Give p50, p99 and the maximum in milliseconds; the maximum stands in for p99 below 100 samples."""
    ordered = sorted(seconds)
    assert ordered  # a row without a sample is a failed row, and its client says so before this
    found = {name: ordered[min(len(ordered) - 1, math.floor(share * len(ordered)))] for name, share in POINTS.items()}
    return {name: round(value * 1e3, 3) for name, value in (found | {"max": ordered[-1]}).items()}


def median_points(repetitions: Sequence[Sequence[float]]) -> Points:
    """Give the median of each repetition's points: one disturbed repetition does not decide."""
    each = [points(seconds) for seconds in repetitions]
    return {name: round(statistics.median(one[name] for one in each), 3) for name in each[0]}


def ratio(ours: Points, baseline: Points) -> Points:
    """Divide point by point, where the baseline has one that is not zero."""
    return {name: round(value / baseline[name], 2) for name, value in ours.items() if baseline.get(name)}


@dataclass(frozen=True)
class Figure:
    """One row: what was measured, what it is measured against in the same run, and what it must reach.

    must: an upper bound per point, or with `more_is_better` a lower one. more: whatever else is worth knowing.
    """

    row: str
    what: str
    unit: str
    ours: Points
    must: Points
    baseline: Points | None = None
    baseline_is: str = ""
    samples: int = 0
    repetitions: int = 1
    more_is_better: bool = False
    is_exact: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        """Every point within its bound, and nothing lost, doubled or out of order."""
        return self.is_exact and all(
            self.ours[name] >= bound if self.more_is_better else self.ours[name] <= bound
            for name, bound in self.must.items()
        )

    def line(self) -> str:
        """Write the row as JSON."""
        said: dict[str, Any] = {"row": self.row, "what": self.what, "unit": self.unit, **self.ours}
        if self.baseline is not None:
            said |= {"baseline": {"what": self.baseline_is, **self.baseline}, "ratio": ratio(self.ours, self.baseline)}
        said |= {"must": {name: round(bound, 3) for name, bound in self.must.items()}, "met": self.is_met}
        said |= {"exact": self.is_exact, "samples": self.samples, "repetitions": self.repetitions, **self.more}
        return json.dumps(said)
