"""The errors of tools, one tree.

ToolFault
  ToolError              refused for certain: nothing happened outside
    ToolArgumentsInvalid   the arguments do not fit; nothing was begun
  OutcomeUnknown         it may have happened
  PermitVoid             the call may not begin
    PermitExpired          too late, cancelled, or given back
    PermitUsed             this permit has already let one call through
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ToolFault(Exception):
    """Root of what a tool or its permit may raise."""

    code = "tool_fault"


class ToolError(ToolFault):
    """The tool refused for certain: there is no effect outside, and there will be none from this call.

    code: stable word for programs. retryable: the same call may succeed later.
    """

    def __init__(self, message: str, code: str = "tool_error", retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable


@dataclass(frozen=True)
class ArgumentProblem:
    """One argument that does not fit. path: dotted, "" for the whole; message: for the model and for people."""

    path: str
    message: str


class ToolArgumentsInvalid(ToolError):
    """The arguments do not fit the tool's parameters. problems: one per field, in the order found."""

    def __init__(self, tool: str, problems: Sequence[ArgumentProblem]) -> None:
        listed = "; ".join(f"{problem.path or 'arguments'}: {problem.message}" for problem in problems)
        super().__init__(f"{tool} refused its arguments: {listed}", code="tool_arguments_invalid")
        self.tool = tool
        self.problems = tuple(problems)


class OutcomeUnknown(ToolFault):
    """The effect may have happened: the request left, and no answer that settles it came back."""

    code = "outcome_unknown"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class PermitVoid(ToolFault):
    """The permit does not let a call begin; nothing was sent."""

    code = "permit_void"


class PermitExpired(PermitVoid):
    """The permit ran out, its run was cancelled, or it was given back. why: "late", "cancelled", "given_back"."""

    code = "permit_expired"

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"The permit of operation {key} is void ({why}); the call was not begun.")
        self.key = key
        self.why = why


class PermitUsed(PermitVoid):
    """A permit lets exactly one call through; a second one needs a dispatch of its own."""

    code = "permit_used"

    def __init__(self, key: str) -> None:
        super().__init__(f"The permit of operation {key} was used already; dispatch the operation again.")
        self.key = key
