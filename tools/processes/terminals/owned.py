"""A worker's hands on terminals: start one, own it as long as the claim lives, and bring the proof of its end.

Owning is not holding: a lost claim, a drain or the death of this process only lets go of the ward, and the next claim
adopts the terminal with its higher fence.
"""

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.processes.proofs import forget_proof, load_proof
from tools.processes.results import TreeProof
from tools.processes.terminals import frames
from tools.processes.terminals.host import socket_of
from tools.processes.terminals.link import NoHost, Refused, connect, start_terminal
from tools.processes.terminals.remote import forget_remote
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime

LETS_GO = (CancelReason.LOST, CancelReason.DRAIN)
PROOF_SECONDS = 5.0  # from KILL to the proof
FILE_SECONDS = 4.0  # a ward whose owner is gone writes its proof within this (ward.py, GOODBYE_SECONDS)
POLL_SECONDS = 0.1
READ_BYTES = 65536
_MOST_LEASES = 4096
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started. key: the terminal's name on this machine; limits, user: see child.py."""

    key: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    rows: int
    cols: int
    grace_seconds: float
    adopt_seconds: float
    limits: Mapping[str, int] = field(default_factory=dict)
    user: tuple[int, int] | None = None  # uid, gid
    record_path: str | None = None  # in a folder that exists
    marks: str | None = None  # the word of a shell that marks its commands


class NoTerminal(Exception):
    """There is none of this key, and nobody can say how it ended."""


class Terminals:
    """One per worker process. folder: where the host of this machine listens; proof_dir: where wards leave proofs."""

    def __init__(self, *, folder: str | Path, proof_dir: str | Path) -> None:
        self.folder, self._proof_dir = str(folder), str(proof_dir)
        self._lock = threading.Lock()  # `renew` comes from the lease keeper's thread
        self._owned: dict[str, _Owned] = {}
        self._ended: dict[str, str] = {}  # run -> key of what has ended, and is not stored yet
        self._leases: dict[str, float] = {}

    async def start(self, plan: Plan) -> None:
        """Start a terminal. Raises: NoHost, CommandNotStarted, RequestLost (it may have started)."""
        forget_proof(self._proof_dir, plan.key)
        await asyncio.to_thread(_note_start, self.folder, plan.key)
        await start_terminal(
            self.folder,
            plan.argv,
            key=plan.key,
            cwd=plan.cwd,
            env=plan.env,
            rows=plan.rows,
            cols=plan.cols,
            grace_seconds=plan.grace_seconds,
            adopt_seconds=plan.adopt_seconds,
            proof_dir=self._proof_dir,
            limits=plan.limits,
            user=plan.user,
            record_path=plan.record_path,
            marks=plan.marks,
        )

    async def hold(self, key: str, *, run_id: str, fence: int, scope: Scope, grace_seconds: float) -> TreeProof:
        """Own a terminal until nothing of it is left, and return the proof. A stop of the scope stops it.

        Cancelling this coroutine only lets go of it. After the proof is stored, call `release`.
        Raises: ScopeCancelled (LOST, DRAIN: let go), NoTerminal.
        """
        proof = await self._own(key, run_id, fence, scope, grace_seconds)
        if proof is None:
            proof = await self._left_behind(key, scope)
        self._ended[run_id] = key
        return proof

    async def _own(self, key: str, run_id: str, fence: int, scope: Scope, grace_seconds: float) -> TreeProof | None:
        """Return the proof; None where there is no ward to give it.

        A ward that has let us go, because our lease had seemed to end, takes us back as long as nobody else came.
        """
        while True:
            try:
                owned = await self._attach(key, fence)
            except (NoHost, OSError):
                return None
            except Refused:  # a higher fence has it
                raise ScopeCancelled(CancelReason.LOST) from None
            with self._lock:
                self._owned[run_id] = owned
                if (until := self._leases.get(run_id)) is not None:
                    owned.say({"until": until})
            try:
                proof = await _until_gone(owned, scope, grace_seconds)
            except BaseException:
                self.let_go(run_id)
                raise
            if proof is not None:
                return proof
            self.let_go(run_id)
            await asyncio.sleep(POLL_SECONDS)

    def renew(self, key_prefix: str, until_boottime: float) -> None:
        """Let the wards of a run count on its claim until then. Any thread."""
        with self._lock:
            self._leases[key_prefix] = until_boottime
            if len(self._leases) > _MOST_LEASES:
                self._leases = {key_prefix: until_boottime} | {key: self._leases[key] for key in self._owned}
            if (owned := self._owned.get(key_prefix)) is not None:
                owned.say({"until": until_boottime})

    def release(self, run_id: str) -> None:
        """Let the ward forget its proof: what the run's terminal came to is stored. Nothing happens without one."""
        key = self._ended.pop(run_id, None)
        if key is None:
            return
        with self._lock:
            owned = self._owned.pop(run_id, None)
        if owned is not None:
            owned.say({"stored": True})
            owned.close()
        self.forget(key)

    def has_ward(self, key: str) -> bool:
        """Say whether a ward of this terminal may be there: a killed one leaves its socket."""
        return os.path.exists(socket_of(self.folder, key))

    def forget(self, key: str) -> None:
        """Remove what is noted of a terminal that is over."""
        forget_proof(self._proof_dir, key)
        forget_remote(self.folder, key)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_note_path(self.folder, key))

    def let_go(self, run_id: str) -> None:
        """Own it no longer: it lives on, or its ward keeps the proof."""
        self._ended.pop(run_id, None)
        with self._lock:
            owned = self._owned.pop(run_id, None)
            if owned is not None:
                owned.close()

    def close(self) -> None:
        """Let go of everything: the terminals live on."""
        with self._lock:
            for owned in self._owned.values():
                owned.close()
            self._owned.clear()

    async def _attach(self, key: str, fence: int) -> "_Owned":
        connected = await connect(socket_of(self.folder, key), socket.SOCK_STREAM)
        owned = _Owned(connected)
        try:
            owned.send(frames.pack_json(frames.HELLO, {"role": "owner", "fence": fence, "quiet": True}))
            welcome = await owned.read()
        except BaseException:
            owned.close()
            raise
        if welcome is None or "refused" in welcome:
            owned.close()
            raise NoHost(f"The terminal of {key} has just ended.") if welcome is None else Refused(welcome["refused"])
        return owned

    async def _left_behind(self, key: str, scope: Scope) -> TreeProof:
        """Nobody answers: its ward left a proof, or the machine was started anew, which ends everything."""
        end = boottime() + FILE_SECONDS
        while boottime() < end:
            if scope.reason in LETS_GO:
                raise ScopeCancelled(scope.reason)
            stored = await asyncio.to_thread(load_proof, self._proof_dir, key)
            if stored is not None:
                return TreeProof.from_message(stored)
            if await asyncio.to_thread(_was_before_boot, self.folder, key):
                return TreeProof(gone=True, cause="worker")
            await asyncio.sleep(POLL_SECONDS)
        raise NoTerminal(key)


class _Owned:
    """The owner's connection. Frames are far smaller than its buffer, so a send never waits, from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._frames = frames.Reader()
        self._ready: list[frames.Frame] = []

    def say(self, command: dict[str, Any]) -> None:
        """Command the ward; one that is gone says so where we read."""
        self.send(frames.pack_json(frames.COMMAND, command))

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(data, socket.MSG_DONTWAIT)

    async def read(self) -> dict[str, Any] | None:
        """Return the next thing that is said; None at the end of the connection."""
        loop = asyncio.get_running_loop()
        while not self._ready:
            try:
                data = await loop.sock_recv(self._socket, READ_BYTES)
            except OSError:
                return None
            if not data:
                return None
            self._ready = self._frames.feed(data)
        _kind, body = self._ready.pop(0)
        return frames.read_json(body)

    async def until_gone(self) -> dict[str, Any] | None:
        """Return the proof; None where the connection ends, or another owner has come, without one."""
        while (said := await self.read()) is not None:
            if "gone" in said:
                return said
            if "displaced" in said:
                return None
        return None

    def close(self) -> None:
        self._socket.close()


async def _until_gone(owned: _Owned, scope: Scope, grace: float) -> TreeProof | None:
    gone = asyncio.ensure_future(owned.until_gone())
    ending = asyncio.ensure_future(scope.wait_ended())
    both: list[asyncio.Future[Any]] = [gone, ending]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            if (reason := ending.result()) in LETS_GO:
                raise ScopeCancelled(reason)
            owned.say({"stop": grace})
            await asyncio.wait({gone}, timeout=grace + PROOF_SECONDS)
        said = gone.result() if gone.done() else None
        if said is None and scope.reason is CancelReason.LOST:
            raise ScopeCancelled(CancelReason.LOST)
        return None if said is None else TreeProof.from_message(said)
    finally:
        for one in both:
            one.cancel()
        await asyncio.wait(both)  # nobody reads from a socket that is being closed


def _note_path(folder: str, key: str) -> str:
    return f"{socket_of(folder, key).removesuffix('.sock')}.json"


def _note_start(folder: str, key: str) -> None:
    """Note that a terminal of this key begins, and during which start of the machine."""
    with open(_BOOT, encoding="ascii") as file:
        boot = file.read().strip()
    path = _note_path(folder, key)
    try:
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            json.dump({"key": key, "boot": boot}, file)
        os.replace(file.name, path)
    except OSError as error:
        raise NoHost(f"The folder of terminals {folder} cannot be written: {error}") from error


def _was_before_boot(folder: str, key: str) -> bool:
    try:
        with open(_note_path(folder, key), encoding="utf-8") as file:
            noted = json.load(file)["boot"]
        with open(_BOOT, encoding="ascii") as file:
            return bool(noted != file.read().strip())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def noted_keys(folder: str | Path) -> list[str]:
    """Name the terminals of this machine that began, and that nobody has called over yet."""
    found = []
    for path in Path(folder).glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(str(json.loads(path.read_bytes())["key"]))
    return found
