"""The cells of the matrix: a scenario, the place where the fault meets it, the fault, and what it may come to."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runs.states import ENDED
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.site import Site
from tests.stack import Probe, wait_until

CELL_SECONDS = 90.0
MID = "in the middle"
TALKS, WAITS = {"model", "gather", "child", "retry"}, {"input", "timer"}
LOSES_THE_HOLDER = {"kill worker", "freeze worker"}
_number = itertools.count()


@dataclass(frozen=True)
class Scenario:
    """What the run does. places: seams, or MID; may_need_a_person: when the holder is lost at a place."""

    what: str
    places: tuple[str, ...]
    end: str = "completed"
    may_need_a_person: frozenset[tuple[str, str]] = frozenset()


def _lost(*places: str, faults: set[str] = LOSES_THE_HOLDER) -> frozenset[tuple[str, str]]:
    return frozenset(itertools.product(places, faults))


SENT, ANSWERED = "after_dispatch_before_receipt", "after_receipt_before_commit"
SCENARIOS = [
    Scenario("model", ("before_model", MID, "after_model_before_dispatch", "after_commit_before_bell", "before_end")),
    Scenario("read", ("lease_held", "before_dispatch", SENT, ANSWERED)),
    Scenario("idempotent", (SENT, ANSWERED)),
    Scenario("checked", (SENT, ANSWERED), may_need_a_person=_lost(SENT, faults={"freeze worker"})),
    Scenario("plain", (SENT, ANSWERED), may_need_a_person=_lost(SENT, ANSWERED)),
    Scenario("command", (SENT, MID, ANSWERED), may_need_a_person=_lost(SENT)),  # no ward has begun: nobody can tell
    Scenario("input", (MID,)),
    Scenario("stop", (MID, "before_settle"), end="cancelled"),
    Scenario("gather", (SENT, MID)),
    Scenario("child", (MID, "before_end")),  # the seam is passed by the child first
    Scenario("timer", (MID,)),
    Scenario("retry", (MID,)),
    Scenario("shell", (MID,)),
]


@dataclass(frozen=True)
class Cell:
    """One experiment."""

    scenario: Scenario
    place: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.scenario.what} / {self.place} / {self.fault.name}"

    @property
    def allowed(self) -> set[str]:
        """The statuses that this may end in."""
        needs_a_person = (self.place, self.fault.name) in self.scenario.may_need_a_person
        return {self.scenario.end} | ({"needs_reconciliation"} if needs_a_person else set())


@dataclass(frozen=True)
class Outcome:
    """What came of a cell. went_on_after: seconds from the fault to the next thing that the run did."""

    cell: Cell
    run_id: str
    status: str
    went_on_after: float
    broken: list[str]

    @property
    def is_right(self) -> bool:
        return not self.broken and self.status in self.cell.allowed


def cells(words: str = "") -> Iterator[Cell]:
    """Yield the cells that a text names ("plain", "model / kill web", ""), each service rested between two blows."""
    wanted = [word.strip() for word in words.split("/") if word.strip()]
    for scenario in SCENARIOS:
        for place in scenario.places:
            for fault in FAULTS.values():
                cell = Cell(scenario, place, fault)
                if all(word in str(cell) for word in wanted):
                    yield cell


def run_cell(site: Site, cell: Cell) -> Outcome:
    """Do one experiment. Raises: AssertionError when the run does not come to the place, or not to its end."""
    what, key = cell.scenario.what, f"{cell.scenario.what}-{next(_number)}"
    site.whole()
    site.stack.switch()
    go = _arm(site, cell.place, key)
    run_id = site.start(key, what, hold=cell.place == MID)
    held = Path(site.stack.tokens / key)
    if what == "retry":
        site.retry(run_id)
    if what == "stop":
        wait_until(lambda: _has(held, ".begun"), what=f"the command of {cell}")
        site.stop(run_id)
    if cell.place == ANSWERED:  # the command has to end before its receipt can be lost
        _release(held)
    wait_until(lambda: _is_there(site, cell, run_id, held, go), what=f"{cell}: the run at its place")
    before, began = site.row(run_id), time.monotonic()
    with cell.fault.inject(site, run_id):
        go.touch()
        if what != "stop":
            _release(held)
        if what == "input":
            site.answer_question(run_id)
        went_on_after = _until(site, run_id, lambda row: _has_gone_on(cell, before, row), began, cell)
    _until(site, run_id, lambda row: row["status"] in ENDED, began, cell)
    row = site.row(run_id)
    return Outcome(cell, run_id, row["status"], went_on_after, site.broken(run_id))


def _has_gone_on(cell: Cell, before: dict, now: dict) -> bool:
    """Something new is on record, and somebody is at work; after the loss of a worker it is somebody else."""
    if now["status"] in ENDED:
        return True
    at_work = now["lease_owner"] is not None and now["last_seq"] > before["last_seq"]
    return at_work and (cell.fault.name not in LOSES_THE_HOLDER or now["lease_owner"] != before["lease_owner"])


def _arm(site: Site, place: str, key: str) -> Path:
    """Let the next pass of the seam wait for the file that is returned."""
    go = site.seams / f"{key}.go"
    if place != MID:
        draft = site.seams / f"{key}.draft"
        draft.write_text(f"wait:{go}")
        draft.rename(site.seams / place)
    return go


def _is_there(site: Site, cell: Cell, run_id: str, held: Path, go: Path) -> bool:
    if cell.place != MID:
        return _has(go, ".reached")
    if cell.scenario.what in TALKS:
        return Probe(held).deltas >= 15
    if cell.scenario.what in WAITS:
        return bool(site.row(run_id)["status"] == "waiting")
    return _has(held, ".begun")


def _release(held: Path) -> None:
    held.with_name(held.name + ".release").touch()


def _has(path: Path, suffix: str) -> bool:
    return path.with_name(path.name + suffix).exists()


def _until(site: Site, run_id: str, fact: Callable[[dict], bool], began: float, cell: Cell) -> float:
    while not fact(row := site.row(run_id)):
        assert time.monotonic() < began + CELL_SECONDS, f"{cell}: {run_id} does not go on: {json.dumps(row)}"
        time.sleep(0.02)
    return time.monotonic() - began
