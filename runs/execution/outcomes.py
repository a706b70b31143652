"""What the end of an agent means for its run: a result, or a code and a message that people can use."""

import asyncio
import inspect
import logging
import os
from typing import Any

from runs.agents.errors import AgentStepError, ModelFailed
from runs.agents.registry import AgentFunction, AgentResultInvalid
from runs.errors import OutliveError
from runs.execution.signals import RunBroken

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 2000
_NOT_THEIRS = (os.path.dirname(__file__), os.path.dirname(asyncio.__file__))


def failure_of(error: BaseException) -> tuple[str, str]:
    """Return (code, message) of a run whose agent ended with `error`."""
    if isinstance(error, ModelFailed):
        return f"model_{error.code}", error.message[:MOST_CHARACTERS]
    if isinstance(error, AgentStepError | RunBroken | OutliveError):
        return error.code, error.message[:MOST_CHARACTERS]
    if isinstance(error, AgentResultInvalid):
        return error.code, str(error)[:MOST_CHARACTERS]
    logger.error("agent.raised", exc_info=error)
    return "agent_error", f"{type(error).__name__}: {error}"[:MOST_CHARACTERS]


def name_of(fn: AgentFunction) -> str:
    """Return "agent file:line", the name of the task that walks the function."""
    code = inspect.unwrap(fn).__code__
    return f"agent {code.co_filename}:{code.co_firstlineno}"


def place_of(task: asyncio.Task[Any]) -> str:
    """Return "file:line" where an agent waits, in its author's code; once it has ended, the name of the task."""
    places: list[tuple[str, int]] = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        places.append((frame.f_code.co_filename, frame.f_lineno))
        waiting = waiting.cr_await
    if task.done() or not places:
        return task.get_name()
    theirs = [place for place in places if not place[0].startswith(_NOT_THEIRS)]
    file, line = (theirs or places)[-1]
    return f"{file}:{line}"
