"""What can go wrong while the stack starts, said in one line each.

StackError               the command ends with `exit_code` and prints the message, nothing else
  PortTaken              exit 2: another program listens there
  AlreadyRunning         exit 2: a second `up` in this checkout
StopRequested            not an error: a signal asked us to leave while we waited
"""


class StackError(Exception):
    """The stack cannot do what was asked; the message is one line and names the next move."""

    exit_code = 1


class UsageProblem(StackError):
    """What was given on the command line or in the environment makes no sense."""

    exit_code = 2


class PortTaken(UsageProblem):
    """Another program listens on the port that was asked for."""


class AlreadyRunning(UsageProblem):
    """Another `up` of this checkout is running."""


class StopRequested(BaseException):
    """A signal asked the stack to stop. Derives from BaseException so that no narrow handler swallows it."""
