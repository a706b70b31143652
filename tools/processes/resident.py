"""The resident: one per worker, forks a ward for each command. stdlib only (see warden.py).

It is a subreaper too: when somebody kills a ward with -9, the ward's orphans become our children and are killed here.
"""

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
from collections.abc import Container

from . import kernel
from .child import IGNORED_BY_US
from .ward import Ward

REQUEST_BYTES = 192 * 1024
_STRAY_POLL_MS = 2


def wake_on_child() -> int:
    """Return a pipe's end that becomes readable when a child ends, so that one poll waits for everything."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def serve(requests: socket.socket, *, worker_pid: int) -> None:
    """Fork a ward per request until the worker is gone; the wards then end their trees by themselves.

    EOF alone is no proof of the worker's death, because a fork of the worker keeps the socket open: a pidfd tells.
    """
    worker = os.pidfd_open(worker_pid)
    if os.getppid() != worker_pid:
        return
    kernel.become_subreaper()
    os.setsid()
    for number in IGNORED_BY_US:  # the wards inherit it
        signal.signal(number, signal.SIG_IGN)
    child_ended = wake_on_child()
    gc.disable()
    gc.freeze()  # a collection in a ward would copy the pages that it shares with us
    poll = select.poll()
    for fd in (requests.fileno(), worker, child_ended):
        poll.register(fd, select.POLLIN)
    wards: set[int] = set()
    strays = False
    while True:
        ready = {fd for fd, _ in poll.poll(_STRAY_POLL_MS if strays else None)}
        if worker in ready:
            return
        if child_ended in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(child_ended, 4096)
        if requests.fileno() in ready:
            request, fds = _receive(requests)
            if not request:
                return
            wards.add(_fork_ward(request, fds, inherited=[requests.fileno(), child_ended], worker=worker))
        reap_wards(wards)
        strays = kill_strays(wards)


def _receive(requests: socket.socket) -> tuple[bytes, list[int]]:
    """Return one request and its file descriptors, close-on-exec from the start."""
    room = socket.CMSG_SPACE(4 * array.array("i").itemsize)
    request, ancillary, _, _ = requests.recvmsg(REQUEST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return request, list(fds)


def _fork_ward(request: bytes, fds: list[int], *, inherited: list[int], worker: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            for fd in inherited:
                os.close(fd)
            control = socket.socket(fileno=fds[0])
            Ward(control, json.loads(request), fds[1:], worker=worker, child_ended=wake_on_child()).run()
        finally:
            os._exit(0)
    for fd in fds:
        os.close(fd)
    return pid


def reap_wards(wards: set[int]) -> None:
    """Take note of the wards that have ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        wards.discard(pid)


def kill_strays(wards: Container[int]) -> bool:
    """Kill what fell to us from a ward that was killed. Returns True while some may be left."""
    strays = [child for child in kernel.children_of(os.getpid()) if child not in wards]
    for stray in strays:
        for pid, parent in kernel.descendants_of(stray):
            kernel.signal_descendant(pid, parent, signal.SIGKILL)
        kernel.signal_descendant(stray, os.getpid(), signal.SIGKILL)
    return bool(strays)
