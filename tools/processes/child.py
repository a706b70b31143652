"""From the fork to the exec of a command: nothing of the ward may leak into it. stdlib only."""

import fcntl
import json
import os
import signal
from typing import Any, NoReturn

from . import kernel

MARK = "OUTLIVE_WARD"  # in the command's environment: finds what is left when ward and resident were both killed
_MOST_FDS = 65536

IGNORED_BY_US = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
# Read once, in the resident: asking for all 62 signals in each command would cost a millisecond.
_IGNORED_AT_START = tuple(number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN)


def exec_command(request: dict[str, Any], fds: list[int], *, failure: int, ward_pid: int) -> NoReturn:
    """Become the command, with `fds` as stdin, stdout, stderr. On failure say why into `failure` and end with 127."""
    try:
        _reset_signals()
        os.setsid()
        # Lift them above 2 first: one of them may be 0, 1 or 2 itself and would be overwritten.
        lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
        for target, fd in enumerate(lifted):
            os.dup2(fd, target)
        os.closerange(3, failure)
        os.closerange(failure + 1, max(failure + 2, min(os.sysconf("SC_OPEN_MAX"), _MOST_FDS)))
        kernel.refuse_new_privileges()
        kernel.die_with_parent()
        if os.getppid() != ward_pid:
            os._exit(127)  # the ward died before the line above could tell us
        os.chdir(request["cwd"])
        environment = {**request["env"], MARK: request["key"]}
        os.execvpe(request["argv"][0], request["argv"], environment)
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) else 0
        os.write(failure, json.dumps({"error": str(error)[:500], "errno": number}).encode())
    finally:
        os._exit(127)


def _reset_signals() -> None:
    """Give the command default signals: ignored ones survive an exec, and so does a blocked mask."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED_AT_START, *IGNORED_BY_US, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
