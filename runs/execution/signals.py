"""What travels through an agent without being the agent's business. BaseExceptions: a broad `except` misses them.

Unwind          nothing more can be done now; the run waits, moves to another worker, or is verified
RunBroken       the run cannot go on at all and fails
  StepMismatch    the agent asks something else than it asked before at this place
  StepLimit       the agent loops for ever
  OperationContradicted  evidence speaks against what was decided about a call that is to be made again

A cancel is `tools.scope.ScopeCancelled`.
"""


class Unwind(BaseException):
    """The agent is taken apart; every finished step is kept, and the next walk comes back to this place."""


class RunBroken(BaseException):
    """The run ends as failed with this code, whatever the agent makes of the exception."""

    code = "broken"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StepMismatch(RunBroken):
    """The stored step of this path is another call than the agent makes now."""

    code = "step_mismatch"

    def __init__(self, path: str, stored: str, asked: str) -> None:
        super().__init__(
            f"Step {path} was {stored} before and is {asked} now. An agent must ask the same on every walk: "
            "take times, random numbers and changing data from steps, and start a new run after changing an agent."
        )


class StepLimit(RunBroken):
    """More steps than a run may have."""

    code = "step_limit"

    def __init__(self, most: int) -> None:
        super().__init__(f"The agent asked for more than {most} steps; it probably loops.")


class OperationContradicted(RunBroken):
    """What was thought not to have happened may have: making the call again could do it twice."""

    code = "operation_contradicted"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"A receipt contradicts what was decided about operation {key}, so it is not sent again. "
            "An operator has to review it; then the run can be retried."
        )
