"""The worker's hands on commands: start, read, stop, and keep them alive only as long as the lease."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.processes.groups import GroupLauncher
from tools.processes.links import Launcher, Link, Message
from tools.processes.output import OnOutput
from tools.processes.proofs import forget_proof, load_proof
from tools.processes.results import ProcessKeyInUse, ProcessResult, RequestLost, TreeProof, UnknownProcess
from tools.processes.streams import Streams
from tools.processes.wards import WardLauncher
from tools.scope import CancelReason, Scope, boottime

# From KILL to the proof takes milliseconds; a process that hangs in the kernel longer than this is no proof.
PROOF_SECONDS = 5.0
_MOST_PREFIXES = 4096


class ProcessHost:
    """One per worker process. Each command gets a ward of its own; one resident forks the wards.

    contained: False forces process groups (the only way outside Linux). proof_dir: where wards leave their proof when
    this worker is dead or its lease over; None keeps none.
    """

    def __init__(self, *, contained: bool = sys.platform == "linux", proof_dir: str | Path | None = None) -> None:
        self._launcher: Launcher = WardLauncher() if contained else GroupLauncher()
        self._proof_dir = None if proof_dir is None else str(proof_dir)
        self._links: dict[str, Link | None] = {}  # None while the command is being started
        self._kept: dict[str, Link] = {}  # ended; their wards keep the proof until `release`
        self._doomed: set[str] = set()  # killed while being started
        self._leases: dict[str, float] = {}
        self._lock = threading.Lock()  # renew and kill come from the lease keeper's thread

    async def start(self) -> None:
        """Start the resident early; without this the first command does it."""
        await self._launcher.start()

    async def close(self) -> None:
        """Kill what still runs and end the resident."""
        self.kill("")
        with self._lock:
            links = [link for link in self._links.values() if link is not None]
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()
        if links:
            await asyncio.wait([link.gone for link in links], timeout=PROOF_SECONDS)
        await self._launcher.close()

    async def run(
        self,
        argv: Sequence[str],
        *,
        key: str,
        cwd: str | Path,
        env: Mapping[str, str],
        scope: Scope,
        term_grace_seconds: float = 3.0,
        output_limit_bytes: int = 262144,
        stdin: bytes = b"",
        on_output: OnOutput | None = None,
        deadline: float | None = None,
        keeps_proof: bool = False,
        user: tuple[int, int] | None = None,
    ) -> ProcessResult:
        """Run a command until its whole tree is gone, and return how it ended.

        When the scope ends, or `deadline` (CLOCK_BOOTTIME seconds) passes, the tree gets TERM, after the grace KILL;
        with reason LOST it gets KILL at once. What the command leaves behind at its own end is stopped the same way.
        Cancelling this coroutine kills the tree and waits for the proof, at most PROOF_SECONDS.
        keeps_proof: the result is not safe yet; should this worker die before `release(key)`, proof_dir has the proof.
        user: uid and gid of who it runs as, where we are root.
        Raises: CommandNotStarted, ProcessKeyInUse, ScopeCancelled (before the start), and what `on_output` raises.
        """
        scope.raise_if_cancelled()
        with self._lock:
            if key in self._links:
                raise ProcessKeyInUse(key)
            self._links[key] = None
        try:
            with contextlib.closing(
                Streams(stdin=stdin, limit_bytes=output_limit_bytes, on_output=on_output)
            ) as streams:
                request = {"argv": list(argv), "env": dict(env), "cwd": str(cwd), "grace": term_grace_seconds}
                request |= {"keep": keeps_proof, "user": user}
                link = await self._start(request, key, streams)
                try:
                    proof = await _see_through(link, streams, scope, deadline, term_grace_seconds)
                    return _result(link, streams, proof)
                finally:
                    self._let_go(key, link, keeps_proof=keeps_proof)
        finally:
            with self._lock:
                del self._links[key]
                self._doomed.discard(key)

    def renew(self, key_prefix: str, until_boottime: float) -> None:
        """Let the commands whose key starts with `key_prefix` live until then; new ones take it over. Any thread.

        At that moment their wards send KILL, by their own clock, whether or not this worker still turns.
        """
        with self._lock:
            self._leases[key_prefix] = until_boottime
            if len(self._leases) > _MOST_PREFIXES:
                now = boottime()
                self._leases = {prefix: until for prefix, until in self._leases.items() if until > now}
            kept = [link for key, link in self._kept.items() if key.startswith(key_prefix)]
            for link in [*self._links_of(key_prefix), *kept]:
                link.send({"until": until_boottime})

    def kill(self, key_prefix: str) -> int:
        """Send KILL to the trees of these commands without waiting. Any thread. Returns how many were running."""
        with self._lock:
            links = self._links_of(key_prefix)
            self._doomed.update(key for key, link in self._links.items() if link is None and key.startswith(key_prefix))
            for link in links:
                link.send({"stop": 0})
        return len(links)

    async def stop(self, key: str, grace_seconds: float) -> TreeProof:
        """TERM, wait, KILL; return the proof. Also the `run` that waits for this command returns.

        Raises: UnknownProcess when no command of this key runs here (any more).
        """
        with self._lock:
            link = self._links.get(key)
        if link is None:
            raise UnknownProcess(key)
        return await _stop_and_wait(link, grace_seconds)

    def proof_of(self, key: str) -> TreeProof | None:
        """Return the proof that a ward stored about `key`, of this worker or of a dead one on this host."""
        if self._proof_dir is None:
            return None
        stored = load_proof(self._proof_dir, key)
        return None if stored is None else TreeProof.from_message(stored)

    def release(self, key: str) -> None:
        """Let the ward forget the proof of `key`: what the command came to is stored. Nothing happens without one."""
        with self._lock:
            link = self._kept.pop(key, None)
        if link is not None:
            link.send({"stored": True})
            link.close()

    def _links_of(self, key_prefix: str) -> list[Link]:
        return [link for key, link in self._links.items() if link is not None and key.startswith(key_prefix)]

    def _lease_of(self, key: str) -> float | None:
        """Return the end of the lease by the longest prefix that fits, or None when nobody renewed it."""
        fitting = [prefix for prefix in self._leases if key.startswith(prefix)]
        return self._leases[max(fitting, key=len)] if fitting else None

    def _let_go(self, key: str, link: Link, *, keeps_proof: bool = False) -> None:
        with self._lock:  # nobody sends to a socket that is being closed
            self._links[key] = None
            if keeps_proof and link.gone.done() and link.gone.result() is not None:
                self._kept[key] = link
                return
        link.close()

    async def _start(self, request: Message, key: str, streams: Streams) -> Link:
        """Launch until exec worked; once more when the resident was killed with our request in its hands."""
        for is_last_try in (False, True):
            link = await self._launch(request, key, streams)
            try:
                await _started(link)
            except RequestLost:
                self._let_go(key, link)
                if is_last_try:
                    raise
            except BaseException:
                self._let_go(key, link)
                raise
            else:
                break
        streams.close_child_ends()
        return link

    async def _launch(self, request: Message, key: str, streams: Streams) -> Link:
        self.release(key)
        if self._proof_dir is not None:
            forget_proof(self._proof_dir, key)
        with self._lock:
            until = self._lease_of(key)
        request |= {"key": key, "until": until, "proof_dir": self._proof_dir}
        link = await self._launcher.launch(request, streams.child_fds)
        with self._lock:
            self._links[key] = link
            is_doomed, renewed = key in self._doomed, self._lease_of(key)
        # What came from the lease keeper between the request and the line above.
        if renewed is not None and renewed != until:
            link.send({"until": renewed})
        if is_doomed:
            link.send({"stop": 0})
        return link


async def _started(link: Link) -> None:
    """Wait until exec worked. Cancelled in between, it still waits for the proof."""
    try:
        await asyncio.shield(link.started)
    except asyncio.CancelledError:
        await _stop_and_wait(link, 0)
        raise


async def _see_through(link: Link, streams: Streams, scope: Scope, deadline: float | None, grace: float) -> TreeProof:
    """Read and feed the command until its tree is gone. An error of `on_output` kills the tree and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(streams.out.drain())
            group.create_task(streams.err.drain())
            feeding = group.create_task(streams.feed_stdin())
            proof = await _until_gone(link, scope, deadline, grace)
            streams.end()
            feeding.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return proof


async def _until_gone(link: Link, scope: Scope, deadline: float | None, grace: float) -> TreeProof:
    ending = asyncio.ensure_future(scope.wait_ended(deadline=deadline))
    both: list[asyncio.Future[Any]] = [link.gone, ending]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if link.gone.done():
            return TreeProof.from_message(link.gone.result())
        return await _stop_and_wait(link, 0 if ending.result() is CancelReason.LOST else grace)
    except asyncio.CancelledError:
        await _stop_and_wait(link, 0)
        raise
    finally:
        ending.cancel()


async def _stop_and_wait(link: Link, grace: float) -> TreeProof:
    link.send({"stop": grace})
    await asyncio.wait({link.gone}, timeout=grace + PROOF_SECONDS)
    return TreeProof.from_message(link.gone.result() if link.gone.done() else None)


def _result(link: Link, streams: Streams, proof: TreeProof) -> ProcessResult:
    ended = link.ended or {}
    code: int | None = ended.get("exit")
    return ProcessResult(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=bytes(streams.out.kept),
        stderr=bytes(streams.err.kept),
        stdout_bytes=streams.out.total_bytes,
        stderr_bytes=streams.err.total_bytes,
        truncated=streams.out.truncated or streams.err.truncated,
        ended_by_itself=bool(ended.get("by_itself")),
        proof=proof,
    )
