"""A ward: the process that one command lives under, and that proves its end (tree.py). stdlib only.

control socket (SEQPACKET, JSON):
    worker -> ward    {"stop": grace seconds}   {"until": CLOCK_BOOTTIME seconds}   {"stored": true}   EOF = it died
    ward -> worker    {"ward"}   {"pid"} or {"error", "errno"}   {"exit", "by_itself"}
                      {"gone": true, ...} only after ECHILD

A worker that asked for it ("keep") is told the proof, and the ward stays until it says that it has stored it. A worker
that dies in between, or freezes past its lease, leaves the proof to the ward, which writes it to a file.
"""

import contextlib
import json
import os
import select
import socket
from typing import Any

from . import kernel
from .child import begin_command
from .proofs import store_proof
from .tree import Tree


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
        self.tree = Tree(grace=request["grace"])
        self.lease = kernel.BootTimer()
        self.has_told_exit = False

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
            for fd, _ in poll.poll(self.tree.timeout_ms()):
                if fd == self.child_ended:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.child_ended, 4096)
                elif fd == self.lease.fd:
                    self._lease_fired(poll)
                elif fd == self.worker or not self._obey():
                    poll.unregister(fd)
                    self.tree.stop(0, "worker")
            is_gone = self.tree.reap()
            self._tell_exit()
            if is_gone:
                return self._report()
            self.tree.tick()

    def _start(self) -> bool:
        """Fork and exec the command. Returns False when it did not start; the worker has been told why."""
        until = self.request.get("until")
        if until is not None:
            if kernel.boottime() >= until:
                self._say({"error": "The lease ended before the command started.", "errno": 0})
                return False
            self.lease.set(until)
        self._say({"ward": os.getpid()})  # from here on the command may run; before it, it never did
        begun = begin_command(self.request, self.fds)
        for fd in set(self.fds):
            os.close(fd)
        if isinstance(begun, dict):
            self._say(begun)
            return False
        self.tree.main = begun
        self._say({"pid": begun})
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
            self.tree.stop(message["stop"], "stop")
        return True

    def _lease_fired(self, poll: select.poll) -> None:
        """Kill at the end of the lease, at once and without TERM (RULES H15).

        Race: a renewal may have moved the timer between poll and here; then reading it finds nothing.
        """
        if self.lease.has_fired():
            poll.unregister(self.lease.fd)
            self.tree.stop(0, "lease")

    def _tell_exit(self) -> None:
        if self.tree.exit is not None and not self.has_told_exit:
            self.has_told_exit = True
            self._say({"exit": self.tree.exit, "by_itself": self.tree.by_itself})

    def _report(self) -> None:
        proof = self.tree.proof()
        if self.tree.cause not in ("lease", "worker") and self._say(proof):
            if not self.request.get("keep") or self._is_stored():
                return
        store_proof(self.request.get("proof_dir"), self.request["key"], proof)
        self._say(proof)

    def _is_stored(self) -> bool:
        """Wait until the worker has stored the proof. False: it cannot any more, its life or lease is over."""
        poll = select.poll()
        for fd in (self.control.fileno(), self.worker, self.lease.fd):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.control.fileno() in ready:
                try:
                    text = self.control.recv(4096)
                except OSError:
                    text = b""
                message = json.loads(text or b"null")
                if message is None or "stored" in message:
                    return message is not None
                if "until" in message:
                    self.lease.set(message["until"])
            elif self.worker in ready:
                return False
            elif self.lease.fd in ready and self.lease.has_fired():
                return False
