"""A model whose answers a test writes down, turn by turn, and which remembers what it was asked.

A turn whose reply was not stored (a stop, a crash) was not said: the next call gets it again. A call past the last turn
fails with a clear error instead of an invented answer.
"""

import re
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.models.protocol import (
    ErrorCode,
    Finished,
    ModelError,
    ModelRequest,
    StreamItem,
    TextDelta,
    ToolUse,
    ToolUseDelta,
    Usage,
)
from tools.models.waiting import pause
from tools.scope import Scope

POLL_SECONDS = 0.005
_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(eq=False)
class Turn:
    """One answer. A turn with `hold_at` waits before that chunk (from 0) until `release`."""

    number: int
    chunks: Sequence[str]
    tools: Sequence[ToolUse]
    hold_at: int | None
    error: ErrorCode | None
    _reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def wait_held(self, seconds: float = 10.0) -> None:
        """Return once the model has said what comes before the hold. Raises: AssertionError after `seconds`."""
        assert self._reached.wait(seconds), f"The model did not come to chunk {self.hold_at} within {seconds} s."

    def release(self) -> None:
        """Let the model go on."""
        self._released.set()

    async def pass_hold(self, scope: Scope) -> None:
        """Wait at the hold. Raises: ScopeCancelled."""
        self._reached.set()
        while not self._released.is_set():
            await pause(scope, POLL_SECONDS)


class ScriptedModel:
    """Every model of the run, whatever name the agent asks for.

    asked: each request, in order; seconds_given: how long each might have taken at most.
    """

    name = "scripted"
    supports_tools = True

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.seconds_given: list[float] = []
        self._turns: list[Turn] = []
        self._said: dict[str, Turn] = {}  # by the step that asked
        self._count = 0
        self._lock = threading.Lock()

    def says(
        self,
        text: str | Sequence[str] = "",
        *,
        tools: Mapping[str, Mapping[str, Any]] | Sequence[tuple[str, Mapping[str, Any]]] = (),
        hold_at: int | None = None,
        error: ErrorCode | None = None,
    ) -> Turn:
        """Add the next answer.

        Args: text: streamed word by word, or in the chunks given; tools: the calls that the model asks for after the
        text, name and arguments; hold_at: wait before this chunk, or after the last one if it is their number;
        error: fail with this code after the text.
        """
        calls = list(tools.items()) if isinstance(tools, Mapping) else tools
        with self._lock:
            number, self._count = self._count, self._count + 1
            uses = [ToolUse(f"call_{number}_{i}", name, dict(words)) for i, (name, words) in enumerate(calls)]
            chunks = _WORDS.findall(text) if isinstance(text, str) else list(text)
            turn = Turn(number, chunks, uses, hold_at, error)
            self._turns.append(turn)
        return turn

    @property
    def turns_left(self) -> int:
        """How many answers nobody has heard to their end."""
        return len(self._turns)

    def forget(self) -> None:
        """Drop the answers that nobody has heard."""
        with self._lock:
            self._turns.clear()

    @property
    def steps(self) -> list[str]:
        """The steps whose turn nobody has given back ("step_…")."""
        with self._lock:
            return list(self._said)

    def give_back(self, step: str) -> None:
        """Say the turn of a step again to whom comes next: who heard it is dead. Twice is once."""
        with self._lock:
            turn = self._said.pop(step, None)
            if turn is not None:
                self._turns = sorted([*self._turns, turn], key=lambda each: each.number)

    async def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Say the next turn. Raises: ModelError as the turn says, or when there is none; ScopeCancelled."""
        turn = self._take(request, scope.remaining())
        is_said = False
        try:
            for number, chunk in enumerate([*turn.chunks, None]):
                if number == turn.hold_at:
                    await turn.pass_hold(scope)
                scope.raise_if_cancelled()
                if chunk is not None:
                    yield TextDelta(chunk)
            is_said = True
            if turn.error is not None:
                raise ModelError(turn.error, f"The test says: {turn.error}.")
            for use in turn.tools:
                yield ToolUseDelta(use)
            yield Usage(sum(len(m.content.split()) for m in request.messages), len(turn.chunks))
            yield Finished("tool_call" if turn.tools else "stop", f"scripted-{len(self.asked)}", self.name, self.name)
        finally:
            if not is_said:
                self.give_back(str(request.metadata["step_id"]))

    def _take(self, request: ModelRequest, seconds: float) -> Turn:
        with self._lock:
            self.asked.append(request)
            self.seconds_given.append(seconds)
            if not self._turns:
                message = f"The test gave the model no answer to call {len(self.asked)}: outlive.model.says(...)."
                raise ModelError("bad_request", message)
            turn = self._turns.pop(0)
            self._said[str(request.metadata["step_id"])] = turn
            return turn
