"""From the fork to the exec of a command: nothing of the ward may leak into it. stdlib only.

request: argv, env, cwd, key; is_terminal; limits ({"memory_mb", "processes", "open_files", "cpu_seconds"}, each
optional); user ([uid, gid], where we are root): who the command runs as.
"""

import fcntl
import json
import os
import resource
import signal
import termios
from typing import Any, NoReturn

from . import kernel

MARK = "OUTLIVE_WARD"  # in the command's environment: finds what is left when ward and resident were both killed
_MOST_FDS = 65536
_LIMITS = {
    # Data, not address space: runtimes reserve far more addresses than they ever use.
    "memory_mb": (resource.RLIMIT_DATA, 1 << 20),
    "processes": (resource.RLIMIT_NPROC, 1),
    "open_files": (resource.RLIMIT_NOFILE, 1),
    "cpu_seconds": (resource.RLIMIT_CPU, 1),
}

IGNORED_BY_US = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
# Read once, in the resident: asking for all 62 signals in each command would cost a millisecond.
_IGNORED_AT_START = tuple(number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN)


def begin_command(request: dict[str, Any], fds: list[int]) -> int | dict[str, Any]:
    """Fork and exec a command below this process. Returns its pid once exec worked, else {"error", "errno"}."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    ward_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        exec_command(request, fds, failure=writer, ward_pid=ward_pid)
    os.close(writer)
    with os.fdopen(reader, "rb") as failure:
        text = failure.read()  # EOF without text: exec closed the pipe, the command runs
    if not text:
        return pid
    os.waitpid(pid, 0)
    said: dict[str, Any] = json.loads(text)
    return said


def exec_command(request: dict[str, Any], fds: list[int], *, failure: int, ward_pid: int) -> NoReturn:
    """Become the command, with `fds` as stdin, stdout, stderr. On failure say why into `failure` and end with 127."""
    try:
        _reset_signals()
        os.setsid()
        # Lift them above 2 first: one of them may be 0, 1 or 2 itself and would be overwritten.
        lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
        for target, fd in enumerate(lifted):
            os.dup2(fd, target)
        if request.get("is_terminal"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches whoever is in the foreground of it
        os.closerange(3, failure)
        os.closerange(failure + 1, max(failure + 2, min(os.sysconf("SC_OPEN_MAX"), _MOST_FDS)))
        kernel.refuse_new_privileges()
        os.chdir(request["cwd"])
        _set_limits(request.get("limits") or {})
        if request.get("user"):
            _become(*request["user"], is_terminal=bool(request.get("is_terminal")))
        kernel.die_with_parent()  # after the change of user, which clears it
        if os.getppid() != ward_pid:
            os._exit(127)  # the ward died before the line above could tell us
        environment = {**request["env"], MARK: request["key"]}
        os.execvpe(request["argv"][0], request["argv"], environment)
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) else 0
        os.write(failure, json.dumps({"error": str(error)[:500], "errno": number}).encode())
    finally:
        os._exit(127)


def _set_limits(limits: dict[str, int]) -> None:
    """Bound what each process may use; nothing is raised above what we have ourselves."""
    for name, value in limits.items():
        which, unit = _LIMITS[name]
        hard = resource.getrlimit(which)[1]
        wanted = value * unit if hard == resource.RLIM_INFINITY else min(value * unit, hard)
        resource.setrlimit(which, (wanted, wanted))


def _become(uid: int, gid: int, *, is_terminal: bool) -> None:
    """Give up being root for good. The terminal is theirs, so that programs can open it by its name."""
    if is_terminal:
        os.fchown(0, uid, -1)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _reset_signals() -> None:
    """Give the command default signals: ignored ones survive an exec, and so does a blocked mask."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED_AT_START, *IGNORED_BY_US, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
