"""The ward of a terminal: it has the master side of a PTY, reads it always, and proves its end. stdlib only.

It needs nobody. Whoever attaches comes over its local socket (frames.py): viewers, one pilot, the screen's keeper, and
one owner, the run's claim. When that is lost, it waits `adopt` seconds for one with a higher fence, and ends without.

    owned --owner's connection or lease ends--> alone --a higher fence--> owned
                                                alone --adopt seconds--> HUP, TERM, grace, KILL --> gone
"""

import contextlib
import os
import select
import signal
import socket
import termios
from typing import Any

from .. import kernel
from ..child import begin_command
from ..tree import Tree
from . import frames
from .agents import Agents
from .attached import Attached
from .goodbye import say_goodbye
from .recording import Recording
from .ring import RING_BYTES, ByteRing
from .typing_in import LATEST, Input

READS_AT_ONCE = 16
HELD_BACK_BYTES = RING_BYTES // 2  # a screen may be this far behind before the program has to wait for it
MOST_WAITING_INPUT = 64 * 1024  # more is left in the pilot's socket
MOST_GRACE_SECONDS = 86_400.0
# An interactive shell ignores TERM; HUP is what a terminal's end says.
END_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT)


class TerminalWard:
    """Runs one program in a PTY to its proof.

    request: argv, env, cwd, key, rows, cols, grace, adopt (seconds), proof_dir?, record_path?. listener: where people
    attach; wake: readable when a child has ended or a signal came, whose numbers are read from it.
    """

    def __init__(self, request: dict[str, Any], *, listener: socket.socket, wake: int) -> None:
        self.request, self.listener, self.wake = request, listener, wake
        self.tree = Tree(grace=request["grace"], signals=END_SIGNALS)
        self.ring, self.agents = ByteRing(), Agents(self)
        self.people: dict[int, Attached] = {}
        self.owner: Attached | None = None
        self.fence = self.pilot = self.sized_at = 0  # sized_at: from which output on it has its size
        self.lease, self.alone = kernel.BootTimer(), kernel.BootTimer()
        self.master, self.has_told_exit, self.is_stored = -1, False, False
        self.size = {"rows": request["rows"], "cols": request["cols"]}

    def begin(self) -> dict[str, Any]:
        """Open the PTY and start the program. Returns {"pid"} or {"error", "errno"}."""
        kernel.become_subreaper()
        os.setsid()
        self.master, slave = os.openpty()
        os.set_blocking(self.master, False)
        self.recording = Recording(self.request.get("record_path"), **self.size)
        if self.recording.problem:
            return {"error": self.recording.problem, "errno": 0}
        self.input = Input(self.master)
        self._set_size()
        begun = begin_command({**self.request, "is_terminal": True}, [slave] * 3)
        os.close(slave)
        if isinstance(begun, dict):
            return begun
        self.tree.main = begun
        self.alone.set(kernel.boottime() + self.request["adopt"])
        return {"pid": begun}

    def run(self) -> None:
        """Stay until the tree is gone and its end is told."""
        is_gone = False
        while not is_gone:
            self._turn()
            is_gone = self.tree.reap()
            if self.tree.exit is not None and not self.has_told_exit:
                self._tell_exit()
            self.tree.tick()
        self._read()
        say_goodbye(self)

    def _turn(self) -> None:
        """Wait for what comes next, and do it."""
        poll = self._poll()
        timeout = self.tree.timeout_ms()
        if self._is_held_back():  # nothing wakes us when a screen turns out to be dead
            timeout = min(1000.0, timeout if timeout is not None else 1000.0)
        for fd, event in poll.poll(timeout):
            if fd == self.wake:
                self._woken()
            elif fd == self.master:
                self._serve_master(event)
            elif fd == self.listener.fileno():
                self._accept()
            elif fd == self.lease.fd and self.lease.has_fired():
                self._lose_owner()
            elif fd == self.alone.fd and self.alone.has_fired():
                self.tree.stop(self.tree.grace, "worker")  # no KILL at once: ssh.py has another machine to clear
            elif fd in self.people:
                self.serve(self.people[fd], event)
        self.flush()

    def _poll(self) -> select.poll:
        poll = select.poll()
        for fd in (self.wake, self.listener.fileno(), self.lease.fd, self.alone.fd):
            poll.register(fd, select.POLLIN)
        if self.master >= 0:
            reads = 0 if self._is_held_back() else select.POLLIN
            poll.register(self.master, reads | (select.POLLOUT if self.input.waits else 0))
        for fd, one in self.people.items():
            reads = 0 if one.role == "pilot" and self.input.waits > MOST_WAITING_INPUT else select.POLLIN
            poll.register(fd, reads | (select.POLLOUT if one.has_more(self.ring) else 0))
        return poll

    def _is_held_back(self) -> bool:
        return any(one.holds_back(self.ring, HELD_BACK_BYTES) for one in self.people.values())

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in os.read(self.wake, 4096):
                self.tree.stop(self.tree.grace, "stop")

    def _serve_master(self, event: int) -> None:
        if event & select.POLLOUT:
            self.type_in()
        if event & ~select.POLLOUT:
            self._read()

    def type_in(self) -> None:
        is_void = self.input.forget_void(kernel.boottime())
        is_taken = self.input.write()
        for one in self.people.values():
            if one.role == "pilot" and is_taken:
                one.say_taken(self.input.written)
            if one.role == "pilot" and is_void:
                one.say(frames.NEWS, {"input": "void", "taken": self.input.accepted})

    def _read(self) -> None:
        """Read what is there, within bounds, so that a flood does not keep us from everything else."""
        for _ in range(READS_AT_ONCE):
            if self.master < 0:
                return
            try:
                data = os.read(self.master, 65536)
            except BlockingIOError:
                return
            except OSError:  # EIO: nobody has the other side open
                data = b""
            if not data:
                os.close(self.master)
                self.master = -1
                self.input.shut()
            self.agents.see(data)
            self.ring.append(data)
            self.recording.output(data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            self.people[connection.fileno()] = Attached(connection)

    def serve(self, one: Attached, event: int) -> None:
        if event & ~select.POLLOUT:
            for kind, body in one.receive():
                try:
                    self._take(one, kind, body)
                except frames.BadFrame:
                    one.is_over = True

    def _take(self, one: Attached, kind: bytes, body: bytes) -> None:
        if one.role is None:
            if kind != frames.HELLO:
                raise frames.BadFrame("no greeting")
            self._greet(one, frames.read_json(body))
        elif kind == frames.INPUT and one.role == "pilot":
            self.agents.lines.somebody_typed()
            if not self.input.take(*frames.read_input(body)):
                one.say(frames.NEWS, {"input": "gap", "taken": self.input.accepted})
            elif self.input.is_shut:
                one.say(frames.NEWS, {"input": "shut"})
            else:
                self.type_in()
        elif kind == frames.SIZE and one.role in ("pilot", "owner"):
            self._read()  # what was written for the old size is before it
            self.size, self.sized_at = frames.read_size(body), self.ring.end
            self._set_size()
            self.tell(frames.NEWS, {**self.size, "at": self.sized_at})
        elif kind == frames.COMMAND and one is self.owner:
            self._obey(frames.read_json(body))
        elif kind == frames.LINE and one.role == "agent":
            self.agents.want(one, frames.read_json(body))
        # Of everybody else, and of a pilot that was displaced, nothing is taken.

    def _greet(self, one: Attached, hello: dict[str, Any]) -> None:
        role, fence, generation = hello.get("role"), hello.get("fence"), hello.get("generation")
        before = self.pilot
        if role == "owner":
            if not isinstance(fence, int) or fence < self.fence + (self.owner is not None):  # the same may come back
                return one.refuse("fence")
            self._own(one, fence)
        elif role == "pilot":
            if not isinstance(generation, int) or generation <= self.pilot:
                return one.refuse("generation")
            self._fly(one, generation)
        elif role == "agent":
            if not self.agents.come(one, fence, hello.get("line")):
                return one.refuse("fence")
        elif role not in ("viewer", "screen"):
            return one.refuse("role")
        begin = hello.get("from")
        one.offset = begin if isinstance(begin, int) and 0 <= begin <= self.ring.end else self.ring.start
        one.role, one.is_quiet = str(role), bool(hello.get("quiet"))
        ended = {"exit": self.tree.exit, "by_itself": self.tree.by_itself} if self.has_told_exit else {}
        one.say(frames.WELCOME, {
            "pid": self.tree.main, "from": one.offset, "start": self.ring.start, "end": self.ring.end, **self.size,
            "sized_at": self.sized_at, "taken": self.input.accepted, "pilot": self.pilot, "before": before, **ended,
            **(self.agents.tell(one) if role == "agent" else {}),
        })  # fmt: skip

    def _own(self, one: Attached, fence: int) -> None:
        if self.owner is not None:
            self.owner.say(frames.NEWS, {"displaced": fence})
            self.owner.role = "viewer"
        self.owner, self.fence = one, fence
        self.alone.clear()
        self.lease.clear()

    def _fly(self, one: Attached, generation: int) -> None:
        for other in self.people.values():
            if other.role == "pilot":
                other.role = "viewer"
        self.agents.lines.somebody_came(is_cut=self.input.waits > 0)
        # Or a successor's input would be numbered after bytes that may never go in.
        self.input.forget_waiting()
        self.pilot = one.generation = generation
        self.tell(frames.NEWS, {"pilot": generation})

    def _obey(self, command: dict[str, Any]) -> None:
        if isinstance(command.get("until"), int | float) and 0 < command["until"] < LATEST:
            self.lease.set(command["until"])
        if command.get("shut_input"):
            self.input.shut()
        if isinstance(command.get("stop"), int | float):
            self.input.shut()
            self.tree.stop(max(0.0, min(command["stop"], MOST_GRACE_SECONDS)), "stop")
        if command.get("stored"):
            self.is_stored = True

    def _lose_owner(self) -> None:
        """Its connection has ended, or its lease: it may be frozen, and come back as nobody."""
        if self.owner is not None:
            self.owner.is_over = True
            self.owner = None
        self.lease.clear()
        self.alone.set(kernel.boottime() + self.request["adopt"])

    def tell(self, kind: bytes, body: dict[str, Any]) -> None:
        for one in self.people.values():
            if one.role is not None:
                one.say(kind, body)

    def _tell_exit(self) -> None:
        """After the last byte of output: what the program wrote before its end is in the ring now."""
        self._read()
        self.has_told_exit = True
        self.tell(frames.NEWS, {"exit": self.tree.exit, "by_itself": self.tree.by_itself, "end": self.ring.end})

    def flush(self) -> None:
        for fd, one in list(self.people.items()):
            one.flush(self.ring)
            if one.is_over:
                del self.people[fd]
                one.close()
                if one is self.owner:
                    self._lose_owner()

    def _set_size(self) -> None:
        if self.master >= 0:
            termios.tcsetwinsize(self.master, (self.size["rows"], self.size["cols"]))
            self.recording.resize(**self.size)
