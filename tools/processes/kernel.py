"""What the warden needs of Linux: subreaper, death signal, boot-time timer, who descends from whom. stdlib only."""

import ctypes
import os
import signal
import struct
import time
from collections.abc import Iterator

_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38
_CLOCK_BOOTTIME, _TFD_FLAGS, _TFD_ABSOLUTE = 7, os.O_NONBLOCK | os.O_CLOEXEC, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def become_subreaper() -> None:
    """Become the parent that orphans of our descendants return to, also after setsid or a double fork."""
    _prctl(_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent dies. Only for the calling process; its children do not inherit it."""
    _prctl(_PDEATHSIG, signal.SIGKILL)


def refuse_new_privileges() -> None:
    """Make set-uid programs harmless: a descendant of another user could not be killed by us."""
    _prctl(_NO_NEW_PRIVS, 1)


def boottime() -> float:
    """Return CLOCK_BOOTTIME in seconds: it goes on while the machine sleeps."""
    return time.clock_gettime(_CLOCK_BOOTTIME)


class BootTimer:
    """A file descriptor that becomes readable at a CLOCK_BOOTTIME moment (poll's own timeout stops in a suspend)."""

    def __init__(self) -> None:
        self.fd = int(_libc.timerfd_create(_CLOCK_BOOTTIME, _TFD_FLAGS))
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_create: {os.strerror(number)}")

    def set(self, at: float) -> None:
        """Fire at `at` (seconds); a moment that has passed fires at once."""
        whole, fraction = divmod(max(at, 0.000001), 1)
        spec = struct.pack("@4l", 0, 0, int(whole), int(fraction * 1e9))  # no interval; both 0 would disarm it
        if _libc.timerfd_settime(self.fd, _TFD_ABSOLUTE, spec, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_settime: {os.strerror(number)}")

    def clear(self) -> None:
        """Fire no more."""
        if _libc.timerfd_settime(self.fd, 0, struct.pack("@4l", 0, 0, 0, 0), None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"timerfd_settime: {os.strerror(number)}")

    def has_fired(self) -> bool:
        """Take note of it. False: it was set anew after poll has seen it."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return False
        return True


# CONFIG_PROC_CHILDREN is not everywhere; without it all of /proc is read.
_HAS_CHILDREN_FILE = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _name_and_parent(pid: int) -> tuple[str, int] | None:
    """Read /proc/PID/stat: "PID (name) state parent ...", where the name may hold anything. None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    end = text.rindex(b")")
    return text[text.index(b"(") + 1 : end].decode(errors="replace"), int(text[end + 2 :].split(None, 2)[1])


def parent_of(pid: int) -> int | None:
    """Return the parent's pid, or None if the process is gone."""
    found = _name_and_parent(pid)
    return None if found is None else found[1]


def children_of(pid: int) -> list[int]:
    """Return the children (all threads') at about this moment; zombies are among them. Gone means none."""
    if not _HAS_CHILDREN_FILE:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(int(name)) == pid]
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def own_children() -> list[int] | None:
    """Return all of our children, zombies among them; None where that cannot be read.

    It misses none of those that were there when it was called, which `children_of` may: the kernel walks the list by
    position, and what takes a child off it is our own waitpid. Only for a process of one thread.
    """
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return list(map(int, file.read().split()))
    except OSError:
        return None


def descendants_of(pid: int) -> Iterator[tuple[int, int]]:
    """Yield (pid, parent as seen) breadth first. It may miss some; only `waitpid` proves that none is left."""
    queue = [pid]
    for parent in queue:
        for child in children_of(parent):
            queue.append(child)
            yield child, parent


def signal_descendant(pid: int, parent: int, *numbers: signal.Signals) -> str | None:
    """Send signals to `pid` if it is still the process that was seen below us. Returns its name, None if none was sent.

    Race: the pid may have been freed and given to a stranger since. So it is pinned by a pidfd first, and then its
    parent is read again: it must be the one seen, or us (its parent died meanwhile and it came to the subreaper).
    """
    try:
        pinned = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        found = _name_and_parent(pid)
        if found is None or found[1] not in (parent, os.getpid()):
            return None
        for number in numbers:
            signal.pidfd_send_signal(pinned, number)
    except OSError:
        return None
    else:
        return found[0]
    finally:
        os.close(pinned)
