"""How often, and after which pauses, a call is tried that was refused for now. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """For calls that end in `ToolError(retryable=True)`: nothing happened, and the same call may succeed later.

    tries: in all, the first one included; first_pause_seconds: it doubles from try to try, up to
    longest_pause_seconds. All pauses spend the run's deadline; a stop ends them at once.
    """

    tries: int = 3
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not (1 <= self.tries <= 100 and 0 < self.first_pause_seconds <= self.longest_pause_seconds):
            raise ValueError(f"{self} makes no sense: 1 to 100 tries, and pauses above 0 that do not shrink.")

    def pause_seconds(self, tries: int) -> float:
        """Return the pause after that many tries."""
        return float(min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** (tries - 1)))
