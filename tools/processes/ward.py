"""A ward: the process that one command lives under, and the proof that nothing of it is left. stdlib only.

The proof is `waitpid(-1)` saying ECHILD in a subreaper: whatever a descendant does (setsid, double fork), its topmost
living ancestor is our child. Looking through /proc only finds whom to signal.

control socket (SEQPACKET, JSON):
    worker -> ward    {"stop": grace seconds}   {"until": CLOCK_BOOTTIME seconds}   EOF = the worker died
    ward -> worker    {"ward"}   {"pid"} or {"error", "errno"}   {"exit", "by_itself"}
                      {"gone": true, ...} only after ECHILD

    running --stop, end of the command--> TERM, grace --> KILL each 2 ms --> gone
    running --lease end, worker's death--> KILL each 2 ms --> gone
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any

from . import kernel
from .child import exec_command
from .proofs import store_proof

_KILL_ROUND_SECONDS = 0.002
# A process that does not die within this many rounds hangs in the kernel; no need to turn at full speed then.
_FAST_ROUNDS, _SLOW_ROUND_SECONDS = 500, 0.05
_MOST_NAMES = 100  # of signalled processes in the evidence


class Ward:
    """Runs one command to its proof. Lives in a process of its own and never returns to its caller's work."""

    def __init__(
        self, control: socket.socket, request: dict[str, Any], fds: list[int], *, worker: int, child_ended: int
    ) -> None:
        self.control = control
        self.request = request
        self.fds = fds
        self.worker = worker
        self.child_ended = child_ended
        self.main: int | None = None
        self.exit: int | None = None
        self.cause: str | None = None  # what stopped it first: "stop", "ended", "lease", "worker"
        self.stopping_since: float | None = None
        self.kill_at: float | None = None
        self.rounds = 0
        self.reaped = 0
        self.signalled: dict[int, list[object]] = {}
        self.lease = kernel.BootTimer()

    def run(self) -> None:
        """Start the command and stay until its tree is gone."""
        kernel.become_subreaper()
        os.setsid()
        if not self._start():
            return
        poll = select.poll()
        for fd in (self.control.fileno(), self.worker, self.child_ended, self.lease.fd):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self._timeout_ms()):
                if fd == self.child_ended:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.child_ended, 4096)
                elif fd == self.lease.fd:
                    self._lease_fired(poll)
                elif fd == self.worker or not self._obey():
                    poll.unregister(fd)
                    self._stop(0, "worker")
            if self._reap():
                return self._report()
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self._kill_round()

    def _timeout_ms(self) -> float | None:
        return None if self.kill_at is None else max(0.0, (self.kill_at - time.monotonic()) * 1e3)

    def _start(self) -> bool:
        """Fork and exec the command. Returns False when it did not start; the worker has been told why."""
        until = self.request.get("until")
        if until is not None:
            if kernel.boottime() >= until:
                self._say({"error": "The lease ended before the command started.", "errno": 0})
                return False
            self.lease.set(until)
        self._say({"ward": os.getpid()})  # from here on the command may run; before it, it never did
        reader, writer = os.pipe2(os.O_CLOEXEC)
        ward_pid = os.getpid()
        self.main = os.fork()
        if self.main == 0:
            exec_command(self.request, self.fds, failure=writer, ward_pid=ward_pid)
        os.close(writer)
        for fd in set(self.fds):
            os.close(fd)
        with os.fdopen(reader, "rb") as failure:
            text = failure.read()  # EOF without text: exec closed the pipe, the command runs
        if text:
            os.waitpid(self.main, 0)
            self._say(json.loads(text))
            return False
        self._say({"pid": self.main})
        return True

    def _say(self, message: dict[str, Any]) -> bool:
        try:
            self.control.send(json.dumps(message).encode(), socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def _obey(self) -> bool:
        """Read one message of the worker. Returns False at its end."""
        try:
            text = self.control.recv(4096)
        except OSError:
            return False
        if not text:
            return False
        message = json.loads(text)
        if "until" in message:
            self.lease.set(message["until"])
        if "stop" in message:
            self._stop(message["stop"], "stop")
        return True

    def _lease_fired(self, poll: select.poll) -> None:
        """Kill at the end of the lease, at once and without TERM (RULES H15).

        Race: a renewal may have moved the timer between poll and here; then reading it finds nothing.
        """
        try:
            os.read(self.lease.fd, 8)
        except BlockingIOError:
            return
        poll.unregister(self.lease.fd)
        self._stop(0, "lease")

    def _stop(self, grace: float, cause: str) -> None:
        """Begin or hasten the end; a later, longer grace changes nothing."""
        now = time.monotonic()
        if self.stopping_since is None:
            self.stopping_since, self.cause = now, cause
            if grace > 0:
                for pid, parent in kernel.descendants_of(os.getpid()):
                    self._signal(pid, parent, signal.SIGTERM, signal.SIGCONT)
        self.kill_at = now + grace if self.kill_at is None else min(self.kill_at, now + grace)

    def _signal(self, pid: int, parent: int, *numbers: signal.Signals) -> None:
        name = kernel.signal_descendant(pid, parent, *numbers)
        if name is not None and (pid in self.signalled or len(self.signalled) < _MOST_NAMES):
            self.signalled[pid] = [name, int(numbers[0])]

    def _kill_round(self) -> None:
        """KILL all that can be found. Repeated until ECHILD: a fork storm makes new ones while we look."""
        if self.stopping_since is None:
            self.stopping_since = time.monotonic()
        for pid, parent in kernel.descendants_of(os.getpid()):
            with contextlib.suppress(OSError):
                # One atomic sweep over a group, where the process leads one; our own group is only us.
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)
            self._signal(pid, parent, signal.SIGKILL)
        self.rounds += 1
        pause = _KILL_ROUND_SECONDS if self.rounds < _FAST_ROUNDS else _SLOW_ROUND_SECONDS
        self.kill_at = time.monotonic() + pause

    def _reap(self) -> bool:
        """Reap what has ended. Returns True when nothing is left below us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self.reaped += 1
            if pid == self.main:
                self.exit = os.waitstatus_to_exitcode(status)
                by_itself = self.stopping_since is None
                self.request["by_itself"] = by_itself
                self._say({"exit": self.exit, "by_itself": by_itself})
                # What it left behind is no longer supervised by anyone's wish: it gets the same grace.
                if by_itself:
                    self._stop(self.request["grace"], "ended")

    def _report(self) -> None:
        took = 0.0 if self.stopping_since is None else (time.monotonic() - self.stopping_since) * 1e3
        proof = {
            "gone": True,
            "exit": self.exit,
            "by_itself": self.request.get("by_itself", False),
            "cause": self.cause,
            "reaped": self.reaped,
            "signalled": [[pid, *what] for pid, what in self.signalled.items()],
            "ms": round(took, 2),
        }
        if self.cause in ("lease", "worker") or not self._say(proof):
            store_proof(self.request.get("proof_dir"), self.request["key"], proof)
            self._say(proof)
