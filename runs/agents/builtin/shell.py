"""A shell: one long call that holds a terminal. It is opened by runs.shells, which gives it its row."""

from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field

from runs.agents import RunContext, agent
from runs.shell_tool import open_shell

GRACE_SECONDS = 900.0
DEADLINE_SECONDS = 604_800.0  # what ends a shell is its own `exit`, a stop, or that nobody comes back


class ShellRequest(BaseModel):
    """Where, what and how large; the shell's row says the same."""

    model_config = ConfigDict(extra="forbid")
    target: Annotated[str, Field(max_length=60)] = "local"
    command: Annotated[str, Field(max_length=1000)] = ""
    rows: Annotated[int, Field(ge=1, le=1000)] = 24
    cols: Annotated[int, Field(ge=1, le=1000)] = 80
    is_recorded: bool = False


class ShellEnd(BaseModel):
    """How the program ended: with a code, or by a signal."""

    exit_code: int | None
    signal: int | None


@agent(
    "shell",
    on_disconnect={"grace_s": GRACE_SECONDS},
    deadline_seconds=DEADLINE_SECONDS,
    listed=False,
    description="An interactive shell. It ends some time after you have left it.",
)
async def shell(ctx: RunContext, request: ShellRequest) -> ShellEnd:
    """Hold the terminal until its program ends."""
    receipt = cast(dict[str, Any], await ctx.tool(open_shell, target=request.target, command=request.command))
    return ShellEnd(exit_code=receipt["exit_code"], signal=receipt["signal"])
