"""What a finished command leaves in the worker, and the errors of not getting that far.

ProcessFault
  CommandNotStarted   exec failed, or the lease was over: nothing of the command ran
    RequestLost         nobody took the request up (the resident was killed): the same request may be made again
  ProcessKeyInUse     a command of this key is still running here
  UnknownProcess      no command of this key is running here
"""

import os
from dataclasses import dataclass
from typing import Any, Self


class ProcessFault(Exception):
    """Root of what starting and stopping commands may raise."""


class CommandNotStarted(ProcessFault):
    """The command did not start, for certain. errno: of exec or chdir, 0 where there is none."""

    def __init__(self, program: str, reason: str, errno: int = 0) -> None:
        super().__init__(f"{program} did not start: {os.strerror(errno) if errno else reason}")
        self.program = program
        self.errno = errno


class RequestLost(CommandNotStarted):
    """The resident died before a ward took the request up."""

    def __init__(self, program: str) -> None:
        super().__init__(program, "nobody took the request up")


class ProcessKeyInUse(ProcessFault):
    """Two commands under one key could not be told apart in a stop."""

    def __init__(self, key: str) -> None:
        super().__init__(f"A command with key {key} is still running; stop it or take another key.")
        self.key = key


class UnknownProcess(ProcessFault):
    """No command of this key runs in this worker: it never started here, or its `run` has returned its proof."""

    def __init__(self, key: str) -> None:
        super().__init__(f"No command with key {key} is running in this worker.")
        self.key = key


@dataclass(frozen=True)
class TreeProof:
    """Whether the whole process tree is proven gone.

    gone: True only after the kernel said that nothing is left. signalled: (pid, name, signal) of what had to be
    asked or killed, at most 100. reaped: processes waited for. ms: from the first stop to the proof. cause: what
    ended it first: "ended" (the command itself), "stop", "lease", "worker", "ward" (killed), or None where nobody could
    say. contained: False where only a process group was watched (not Linux); setsid escapes that. status: of the
    command itself, below 0 for a signal; by_itself: it had ended before anybody asked it to.
    """

    gone: bool
    signalled: tuple[tuple[int, str, int], ...] = ()
    reaped: int = 0
    ms: float = 0.0
    cause: str | None = None
    contained: bool = True
    status: int | None = None
    by_itself: bool = False

    @classmethod
    def from_message(cls, message: dict[str, Any] | None) -> Self:
        """Read a ward's last message; None (the ward died without one) proves nothing."""
        if message is None:
            return cls(gone=False)
        return cls(
            gone=message["gone"],
            signalled=tuple((pid, name, number) for pid, name, number in message["signalled"]),
            reaped=message["reaped"],
            ms=message["ms"],
            cause=message["cause"],
            contained=message.get("contained", True),
            status=message.get("exit"),
            by_itself=message.get("by_itself", False),
        )


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended.

    exit_code or signal: one of them, or none where the ward died. stdout, stderr: the first bytes, up to the limit
    each; stdout_bytes, stderr_bytes: the true counts. ended_by_itself: it was over before anybody asked it to stop.
    """

    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool
    ended_by_itself: bool
    proof: TreeProof
