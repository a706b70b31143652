"""What the end of an agent means for its run: a result, or a code and a message that people can use."""

import asyncio
import logging
from typing import Any

from runs.agents.errors import AgentStepError, ModelFailed
from runs.agents.registry import AgentResultInvalid
from runs.errors import OutliveError
from runs.execution.signals import RunBroken

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 2000


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


def place_of(task: asyncio.Task[Any]) -> str:
    """Return "file:line" where a task waits, or where its function begins once it has ended."""
    frames = task.get_stack(limit=1)
    if frames:
        return f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}"
    coroutine = task.get_coro()
    code = getattr(coroutine, "cr_code", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown"
