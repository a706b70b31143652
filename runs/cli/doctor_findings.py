"""What the doctor says: a finding is what was seen, what it means for runs, and the next move."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

HELP = "docs/PROXIES.md"


class Verdict(StrEnum):
    """How a check ended. A warning costs comfort; a problem breaks something that Outlive promises its users."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    verdict: Verdict
    seen: str
    means: str = ""
    next_move: str = ""

    def line(self) -> str:
        """Write it on one line."""
        word = self.verdict.value if self.verdict in (Verdict.OK, Verdict.SKIPPED) else self.verdict.value.upper()
        return (
            f"{word:<8} {self.check:<11} {' '.join(part for part in (self.seen, self.means, self.next_move) if part)}"
        )

    def body(self) -> dict[str, Any]:
        """Write it for programs."""
        return {
            "object": "finding", "check": self.check, "verdict": self.verdict.value, "seen": self.seen,
            "means": self.means or None, "next_move": self.next_move or None,
        }  # fmt: skip


def ok(check: str, seen: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Verdict.OK, seen)


def warning(check: str, seen: str, means: str, next_move: str) -> Finding:
    """Something is worse than it could be."""
    return Finding(check, Verdict.WARNING, seen, means, next_move)


def problem(check: str, seen: str, means: str, next_move: str) -> Finding:
    """Something does not work."""
    return Finding(check, Verdict.PROBLEM, seen, means, next_move)


def skipped(check: str, why: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, Verdict.SKIPPED, why)
