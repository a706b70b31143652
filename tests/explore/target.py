"""The outside world, as small as it can be: what was sent may land at any time, once for each time it was sent."""

from collections import Counter


class Target:
    """A target that takes requests under operation keys.

    One that dedupes lets each key take effect once, as the demo target does; the other lets each request.
    """

    def __init__(self) -> None:
        self.landed: Counter[str] = Counter()
        self.sealed: set[str] = set()
        self.under_way: list[str] = []

    def land(self, key: str, *, dedupes: bool = False) -> bool:
        """Let a request take effect. False: the key is sealed, and it is refused."""
        if key in self.sealed:
            return False
        if not (dedupes and self.landed[key]):
            self.landed[key] += 1
        return True

    def look_up(self, key: str) -> bool:
        """Say whether the key took effect."""
        return self.landed[key] > 0
