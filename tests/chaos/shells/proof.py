"""What a proof is: something that is done to a running installation, what was seen, and what of it is wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.site import Site


@dataclass(frozen=True)
class Size:
    """How much is done, and what else runs on the machine.

    flood_seconds: of each flood, whose memory counts from mark_seconds on; most_*: bounds in seconds (late: of an
    overdue row); deadline_seconds: of the shells that end by it, which must have begun by then.
    """

    flood_seconds: float
    mark_seconds: float
    most_ctrl_c: float
    most_echo: float
    most_late: float
    deadline_seconds: float
    sessions: int
    at_once: int


FULL = Size(
    flood_seconds=60.0, mark_seconds=10.0, most_ctrl_c=0.5, most_echo=0.02, most_late=2.0, deadline_seconds=30.0,
    sessions=200, at_once=20,
)  # fmt: skip
QUICK = Size(
    flood_seconds=3.0, mark_seconds=1.5, most_ctrl_c=5.0, most_echo=1.0, most_late=20.0, deadline_seconds=20.0,
    sessions=7, at_once=7,
)  # fmt: skip


@dataclass
class Found:
    """What was seen; `wrong` is empty where it is as promised."""

    facts: dict[str, object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def must(self, is_so: object, what: str) -> None:
        """Put down what is not so."""
        if not is_so:
            self.wrong.append(what)


@dataclass(frozen=True)
class Proof:
    """One row of the table. Raises, when it is run: AssertionError where it does not come to its end."""

    name: str
    show: Callable[[Site, Size], Found]

    def __str__(self) -> str:
        return f"shells / {self.name}"
