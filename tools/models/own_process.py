"""What a server process that another process starts owes to it: to end with it, and to fail in one line."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


class CannotStart(Exception):
    """The server cannot start; the message is the one line that the operator reads."""


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent ends (Linux; elsewhere it does nothing).

    The kernel means the parent's thread that started this process: it must live as long as the parent.
    Races: a parent that ended before the call is noticed by the changed parent id; then this process ends too.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise CannotStart("The parent process has ended already.")
