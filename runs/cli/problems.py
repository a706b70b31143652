"""What may go wrong in the terminal: one line each (what happened, what it means for the run, the next move).

CliProblem
+-- Usage          exit 2: the command or its input is wrong, or the server refused it
+-- Unreachable    exit 5: no answer from the server, or it cannot work right now
"""

from typing import ClassVar

EXIT_COMPLETED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 3
EXIT_NEEDS_RECONCILIATION = 4
EXIT_UNREACHABLE = 5

EXIT_OF_STATUS = {
    "completed": EXIT_COMPLETED,
    "failed": EXIT_FAILED,
    "cancelled": EXIT_CANCELLED,
    "needs_reconciliation": EXIT_NEEDS_RECONCILIATION,
}


class CliProblem(Exception):
    """Ends the command with one line on stderr. `code` is the API's error code where there is one."""

    exit_code: ClassVar[int] = EXIT_USAGE

    def __init__(self, message: str, *, code: str = "usage") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Usage(CliProblem):
    """Asking again in the same way gives the same refusal."""


class Unreachable(CliProblem):
    """The server did not answer, or said that it cannot work right now."""

    exit_code = EXIT_UNREACHABLE

    def __init__(self, message: str, *, code: str = "unreachable") -> None:
        super().__init__(message, code=code)


class Refused(Usage):
    """The server's own refusal. `status` is the HTTP status."""

    def __init__(self, status: int, code: str, message: str, param: str | None) -> None:
        text = f"{param}: {message}" if param and param not in message else message
        super().__init__(text, code=code)
        self.status = status
