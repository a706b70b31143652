"""An agent for the test of poison: its tool kills the worker that carries it, each time."""

import os
import signal
from pathlib import Path

from pydantic import BaseModel

from runs.agents import RunContext, agent
from tools import tool


class Victim(BaseModel):
    """note: the file in which each death leaves a line with the process that died."""

    note: str


@tool(effect="read")
async def kill_worker(note: str) -> str:
    """Leave a line, and kill the process that carries the run."""
    _leave_line(note)
    os.kill(os.getpid(), signal.SIGKILL)
    return "nobody reads this"


def _leave_line(note: str) -> None:
    with Path(note).open("a") as file:
        file.write(f"{os.getpid()}\n")


@agent("killer", listed=False)
async def killer(ctx: RunContext, request: Victim) -> str:
    """Kill the worker."""
    await ctx.tool(kill_worker, note=request.note)
    return "survived"
