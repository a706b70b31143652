"""Runs a blocking function in a child process that can be killed, never in the loop."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.effects import JSON
from tools.errors import OutcomeUnknown, ToolError
from tools.processes.environment import build_environment
from tools.processes.host import ProcessHost
from tools.processes.results import CommandNotStarted
from tools.scope import Scope

ANSWER_BYTES = 8 * 1024 * 1024


async def call_blocking(
    host: ProcessHost,
    fn: Callable[..., object],
    arguments: Mapping[str, JSON],
    *,
    key: str,
    cwd: Path,
    settings: Mapping[str, str],
    scope: Scope,
) -> JSON:
    """Return what `fn(**arguments)` returned in a child process under a ward.

    The child and all it started are gone when this returns or raises; when the scope ends they are killed.
    Raises: ToolError as `fn` did, or when the child did not start; TimeoutError when the scope ended first;
    OutcomeUnknown when the child died without an answer or `fn` raised anything else.
    """
    place = f"{fn.__module__}:{fn.__qualname__}"
    roots = os.pathsep.join(part or str(Path.cwd()) for part in sys.path)
    try:
        result = await host.run(
            [sys.executable, "-m", "tools.processes.call", place],
            key=key,
            cwd=cwd,
            env={**build_environment(settings, home=cwd), "PYTHONPATH": roots},
            scope=scope,
            term_grace_seconds=0.0,
            output_limit_bytes=ANSWER_BYTES,
            stdin=json.dumps(arguments).encode(),
        )
    except CommandNotStarted as error:
        raise ToolError(str(error), code="not_started", retryable=True) from error
    if not result.ended_by_itself:
        raise TimeoutError(f"{place} was stopped before it returned.")
    return _read_answer(place, result.stdout, result.stderr)


def _read_answer(place: str, text: bytes, errors: bytes) -> JSON:
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError:
        tail = errors[-500:].decode(errors="replace")
        raise OutcomeUnknown(f"{place} died without an answer: {tail}") from None
    if "refused" in answer:
        raise ToolError(**answer["refused"])
    if "value" in answer:
        value: JSON = answer["value"]
        return value
    raise OutcomeUnknown(answer.get("unknown") or answer["raised"])
