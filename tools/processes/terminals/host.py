"""The host of terminals: one process of a machine that starts them, and that no worker's or web server's end touches.

FOLDER/host.sock (SEQPACKET): one request (JSON, ward.py) a connection, one answer: {"pid", "socket"} or {"error",
"errno"}. A terminal then lives under a ward of its own, at FOLDER/<digest of its key>.sock; killing the host ends none.
SIGTERM does: it is how an installation is taken down. stdlib only.
"""

import contextlib
import fcntl
import gc
import hashlib
import json
import os
import select
import signal
import socket
import traceback
from typing import Any

from .. import kernel
from ..child import IGNORED_BY_US
from ..resident import REQUEST_BYTES, wake_on_child
from .frames import BadFrame, read_json
from .killed import Wards
from .ward import TerminalWard

HOST_SOCKET = "host.sock"
BACKLOG = 64
IS_RUNNING = 3  # exit status: another host has this folder
_STRAY_POLL_MS = 2


def socket_of(folder: str, key: str) -> str:
    """Return where the terminal of this key is attached to. Keys may hold any character; such a path is short."""
    return os.path.join(folder, hashlib.sha256(key.encode()).hexdigest()[:32] + ".sock")


def serve(folder: str) -> int:
    """Start terminals until SIGTERM, then end them all. Returns the exit status: 0, or IS_RUNNING."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, "host.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return IS_RUNNING
    kernel.become_subreaper()
    for number in IGNORED_BY_US:
        signal.signal(number, signal.SIG_IGN)
    wake = wake_on_child()
    signal.signal(signal.SIGTERM, lambda *_: None)  # its number comes out of `wake`
    listener = _listen(os.path.join(folder, HOST_SOCKET))
    gc.freeze()
    Host(folder, listener, wake, lock).run()
    return 0


def _listen(path: str, kind: socket.SocketKind = socket.SOCK_SEQPACKET) -> socket.socket:
    """Listen at a path, in place of one that was killed; whoever finds it there is heard at once."""
    listener = socket.socket(socket.AF_UNIX, kind)
    draft = f"{path}.{os.getpid()}"
    listener.bind(draft)
    os.chmod(draft, 0o600)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    os.replace(draft, path)
    return listener


class Host:
    """Forks a ward for each request."""

    def __init__(self, folder: str, listener: socket.socket, wake: int, lock: int) -> None:
        self.folder, self.listener, self.wake, self.lock = folder, listener, wake, lock
        self.asking: dict[int, socket.socket] = {}
        self.wards = Wards()
        self.is_ending = False

    def run(self) -> None:
        """Serve until a SIGTERM has ended every terminal."""
        strays = False
        while not (self.is_ending and self.wards.is_empty):
            poll = select.poll()
            for fd in (self.wake, self.listener.fileno(), *self.asking):
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(_STRAY_POLL_MS if strays else None):
                if fd == self.wake:
                    self._woken()
                elif fd == self.listener.fileno():
                    self._accept()
                else:
                    self._answer(self.asking.pop(fd))
            strays = self.wards.settle()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in os.read(self.wake, 4096):
                self.is_ending = True
                for pid in self.wards.living:
                    os.kill(pid, signal.SIGTERM)  # not reaped yet, so it is still ours

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            self.asking[connection.fileno()] = connection

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                text = connection.recv(REQUEST_BYTES)
                if text and not self.is_ending:
                    self._begin(_read_request(text), connection)
            except OSError:
                pass  # whoever asked is gone, and nothing was begun
            except BadFrame as error:
                with contextlib.suppress(OSError):
                    connection.send(json.dumps({"error": f"The request is {error}.", "errno": 0}).encode())

    def _begin(self, request: dict[str, Any], connection: socket.socket) -> None:
        path = socket_of(self.folder, request["key"])
        if _is_served(path) or self.wards.has(path):
            connection.send(json.dumps({"error": "A terminal of this key is running.", "errno": 0}).encode())
            return
        pid = os.fork()
        if pid == 0:
            try:
                self._become_ward(request, connection, path)
                os._exit(0)
            except BaseException:  # the edge of a process: without a word nobody would know why a shell has died
                traceback.print_exc()
            finally:
                os._exit(1)  # nothing is proven
        self.wards.living[pid] = request, path

    def _become_ward(self, request: dict[str, Any], connection: socket.socket, path: str) -> None:
        signal.set_wakeup_fd(-1)
        for fd in (self.wake, self.lock, self.listener.fileno(), *self.asking):
            os.close(fd)
        ward = TerminalWard(request, listener=_listen(path, socket.SOCK_STREAM), wake=wake_on_child())
        answer = ward.begin()
        try:
            connection.send(json.dumps(answer | {"socket": path}).encode())
            connection.close()
            if "pid" in answer:
                ward.run()
        finally:
            os.unlink(path)


def _read_request(text: bytes) -> dict[str, Any]:
    """Read what to start. Raises: BadFrame; the host of all terminals does not end with a bad request."""
    request = read_json(text)
    if not isinstance(request.get("key"), str):
        raise BadFrame("without a key")
    return request


def _is_served(path: str) -> bool:
    """Say whether a ward listens there; a socket that a killed one has left is nobody's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # it is frozen, and its queue is full: still its terminal
        except OSError:
            return False
    return True
