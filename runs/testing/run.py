"""A run as a test sees it: commands as its owner gives them, and what the database and the target say of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from runs import frames, retrying, selectors, services
from runs.access import Actor
from runs.ids import text_id
from runs.models import Event, Operation, Question, Run
from runs.states import ENDED, Status

SECONDS = 30.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of the ledger. receipt: proof, external_id and value, as far as they are known."""

    key: str
    tool: str
    state: str
    receipt: dict[str, Any] | None
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class RunUnderTest:
    """A run. Every property reads the database now."""

    pk: UUID
    actor: Actor
    tend: Callable[[], None] = field(repr=False)  # what workers, parent and supervisor would do meanwhile
    count_effects: Callable[[], dict[str, int]] = field(repr=False)

    @property
    def id(self) -> str:
        return text_id("run", self.pk)

    @property
    def row(self) -> Run:
        return Run.objects.get(pk=self.pk)

    @property
    def status(self) -> str:
        return self.row.status

    @property
    def result(self) -> Any:
        """What the agent returned, as JSON."""
        return self.row.result

    @property
    def error(self) -> tuple[str, str]:
        """Code and message of a failed run, else two empty texts."""
        row = self.row
        return row.error_code or "", row.error_message or ""

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every stored event of the current attempt; a hole in their numbers fails the test."""
        rows = list(Event.objects.filter(stream_id=self.row.stream_id).order_by("seq").values_list("seq", "data"))
        assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1)), "The event log has a hole."
        return [frames.decode(seq, data) for seq, data in rows]

    @property
    def types(self) -> list[str]:
        """The types of the events, in order."""
        return [event["type"] for event in self.events]

    @property
    def ledger(self) -> list[Entry]:
        """The operations, in the order in which they were meant."""
        rows = Operation.objects.filter(run_id=self.pk).order_by("created_at").prefetch_related("evidence")
        return [
            Entry(row.key, row.tool, row.state, row.receipt, tuple(e.kind for e in row.evidence.order_by("at")))
            for row in rows
        ]

    @property
    def effects(self) -> list[int]:
        """How often each operation of the ledger took effect at the target, in the ledger's order."""
        counts = self.count_effects()
        return [counts.get(entry.key, 0) for entry in self.ledger]

    @property
    def children(self) -> list["RunUnderTest"]:
        """The runs that it has begun, in the order of their births."""
        begun = Run.objects.filter(parent_id=self.pk).order_by("pk").values_list("pk", flat=True)
        return [replace(self, pk=child) for child in begun]

    @property
    def cancel_effects(self) -> list[str]:
        """What a stop found for each call that had begun: not_started, stopped, committed, unknown, ..."""
        return [effect["outcome"] for effect in selectors.run_effects(self.row)]

    @property
    def questions(self) -> list[str]:
        """What the run asks right now."""
        return [question.prompt for question in selectors.open_questions(self.row)]

    def stop(self) -> services.CancelReceipt:
        """Ask the run to stop, as its owner does."""
        return services.cancel_run(actor=self.actor, run_id=self.pk)

    def answer(self, value: Any, *, prompt: str | None = None) -> None:
        """Answer the question that is open, or the one with this prompt. Raises: as services.answer_question."""
        asked = Question.objects.filter(run_id=self.pk)
        question = asked.get(prompt=prompt) if prompt is not None else asked.latest("asked_at")
        services.answer_question(actor=self.actor, run_id=self.pk, question_id=question.pk, value=value)

    def retry(self, **more: Any) -> "RunUnderTest":
        """Try the settled run again as a new attempt, as its owner does. more: as retrying.retry_run."""
        retrying.retry_run(actor=self.actor, run_id=self.pk, **more)
        return self

    def until(self, type: str, *, count: int = 1, seconds: float = SECONDS) -> "RunUnderTest":
        """Let the run go on until it has so many events of a type. Raises: AssertionError after `seconds`."""
        return self._until(lambda: self.types.count(type) >= count, f"{count} x {type}", seconds)

    def until_status(self, *wanted: str, seconds: float = SECONDS) -> "RunUnderTest":
        """Let the run go on until it has one of these statuses. Raises: AssertionError after `seconds`."""
        return self._until(lambda: self.status in wanted, " or ".join(wanted), seconds)

    def to_end(self, *, seconds: float = SECONDS) -> "RunUnderTest":
        """Let the run go on until it has ended, or waits for a person. Raises: AssertionError after `seconds`."""

        def is_over() -> bool:
            row = self.row
            return row.status in ENDED or (row.status == Status.WAITING and row.waiting_for == "input")

        return self._until(is_over, "the end", seconds)

    def _until(self, fact: Callable[[], bool], what: str, seconds: float) -> "RunUnderTest":
        try:
            wait_for(fact, what, tend=self.tend, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error} {self.status} {self.error}, {self.types}") from None
        return self


def wait_for(fact: Callable[[], bool], what: str, *, tend: Callable[[], None], seconds: float) -> None:
    """Look again and again, and let the runs go on meanwhile. Raises: AssertionError after `seconds`."""
    give_up_at = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < give_up_at, f"{what} did not come within {seconds} s."
        tend()
        time.sleep(POLL_SECONDS)
