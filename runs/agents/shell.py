"""A shell in an agent's hands: a terminal that stays, with all that was done in it. Pure: a Protocol and its value."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended.

    output: what it printed, as plain text; of much output the beginning and the end, with a line between them that
    says how many bytes are left out. exit_code: None where it was not seen. timed_out: it was ended by Ctrl-C.
    """

    output: str
    exit_code: int | None
    timed_out: bool = False
    left_out_bytes: int = 0


class Shell(Protocol):
    """A shell that this run has opened. People watch it, and may take it over; meanwhile the agent's calls wait.

    id: "shell_…"; run_id: of the child run that it is. It is stopped at the latest with the run that has opened it.
    """

    @property
    def id(self) -> str: ...
    @property
    def run_id(self) -> str: ...

    async def run(self, command: str, *, timeout_seconds: float = 120.0) -> CommandEnd:
        """Type a command at the prompt and wait for its end. It may have many lines.

        It is typed once, also when the worker dies: the next one waits for its end. After the time-out it gets Ctrl-C.
        Raises: ToolFailed: "shell_ended" (the command too), "no_prompt" (it did not end by Ctrl-C; the next call waits
        for it).
        """
        ...

    async def type(self, text: str) -> None:
        """Type keys into whatever runs there: "y\\r", "\\x03" for Ctrl-C. Raises: ToolFailed."""
        ...

    async def screen(self) -> str:
        """Read what stands on the screen, as plain lines. Raises: ToolFailed."""
        ...

    async def close(self) -> None:
        """End the shell with all that runs in it, and wait until that is proven."""
        ...
