"""The lease keeper: a thread of its own that renews every lease of this worker with one statement.

A loop that is blocked keeps its leases for `max_block_seconds`, and not longer (RULES H4). The heartbeat carries the
cancel. Two watches on the same facts, because either may be stuck: the thread stops processes without the loop; the
loop's `guard` stops runs whose lease has ended while the thread hangs in a connection.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from runs.clock import ASK, ASK_EVERY_SECONDS, clock
from runs.conf import limits
from runs.decisions.claims import renew
from runs.execution.held import Held
from runs.execution.one_statement import only_query, result_of
from tools.scope import boottime

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.25
# A silent network is as bad as a broken one.
_LIMITS = "connect_timeout=2 tcp_user_timeout=2000 options='-c statement_timeout=2000 -c lock_timeout=1000'"


class Processes(Protocol):
    """What the keeper needs of the process host; both may be called from any thread."""

    def renew(self, key_prefix: str, until_boottime: float) -> None: ...
    def kill(self, key_prefix: str) -> int: ...


class Terminals(Protocol):
    """The same of the hands on terminals. Nothing kills one from here: a claim that is lost only lets go of it."""

    def renew(self, key_prefix: str, until_boottime: float) -> None: ...


def kill_this_process() -> None:
    """End this worker at once: its loop does not turn, so nothing gentler reaches it."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_of_lease(began: float) -> float:
    """Return when a lease that was asked for at `began` (CLOCK_BOOTTIME) ends, as we believe it (RULES H15)."""
    return began + limits().lease_seconds - limits().lease_margin_seconds


class LeaseKeeper:
    """Renews what it watches. Made and started on the loop whose runs it keeps."""

    def __init__(
        self,
        *,
        conninfo: str,
        worker: str,
        processes: Processes,
        terminals: Terminals | None = None,
        die: Callable[[], None] = kill_this_process,
    ) -> None:
        self._conninfo = conninfo
        self._worker = worker
        self._processes = processes
        self._terminals = terminals
        self._die = die
        self._loop = asyncio.get_running_loop()
        self._held: dict[UUID, Held] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._connection: Connection[dict[str, Any]] | None = None
        self._last_turn = boottime()
        self._renew_at = 0.0
        self._thread = threading.Thread(target=self._run, name="lease keeper", daemon=True)
        self._guard: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep leases."""
        self._guard = self._loop.create_task(self._watch_from_loop(), name="lease guard")
        self._thread.start()

    async def close(self) -> None:
        """Stop renewing. What is still held ends by itself at the end of its lease."""
        self._stopping.set()
        if self._guard is not None:
            self._guard.cancel()
        await asyncio.to_thread(self._thread.join, 5.0)

    def watch(self, held: Held) -> None:
        """Keep this claim's lease from now on."""
        self._renew_hands(held)
        with self._lock:
            self._held[held.run_id] = held

    def forget(self, held: Held) -> None:
        """Keep it no longer: the claim was given back, or lost."""
        with self._lock:
            if self._held.get(held.run_id) is held:
                del self._held[held.run_id]

    def find(self, run_id: UUID) -> Held | None:
        """Return the claim of this run, if this worker has one."""
        with self._lock:
            return self._held.get(run_id)

    @property
    def held(self) -> list[Held]:
        """The claims that are being kept."""
        with self._lock:
            return list(self._held.values())

    async def _watch_from_loop(self) -> None:
        while True:
            self._last_turn = now = boottime()
            for held in self.held:
                if now >= held.believed_until:
                    self._lose(held)
            await asyncio.sleep(TICK_SECONDS)

    def _lose(self, held: Held) -> None:
        if held.is_over:
            return
        logger.warning("lease.lost", extra={"run_id": str(held.run_id), "fence": held.fence, "worker": self._worker})
        self.forget(held)
        self._processes.kill(held.prefix)
        held.lose()

    def _run(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            try:
                self._tick(boottime())
            except Exception:  # the edge of the thread: without it every run of this worker would be lost in silence
                logger.exception("lease.tick_failed", extra={"worker": self._worker})
        self._disconnect()

    def _tick(self, now: float) -> None:
        self._stop_without_loop(now)
        if now - self._last_turn >= limits().max_block_seconds:
            logger.error("lease.loop_blocked", extra={"worker": self._worker, "seconds": round(now - self._last_turn)})
            return
        if now >= self._renew_at:
            self._renew(now)
        for held in self.held:
            if boottime() >= held.believed_until:
                self._tell_lost(held)

    def _renew(self, began: float) -> None:
        kept = {held.run_id: held for held in self.held}
        if not kept:
            self._renew_at = 0.0
            return
        try:
            words = self._ask({run_id: held.fence for run_id, held in kept.items()})
        except psycopg.Error as error:
            logger.warning("lease.not_renewed", extra={"worker": self._worker, "error": str(error).strip()[:200]})
            self._disconnect()
            return  # the next tick tries again, until the leases have ended
        self._renew_at = began + limits().renew_every_seconds
        for run_id, held in kept.items():
            if words[run_id] == "LOST":
                self._tell_lost(held)
                continue
            held.believed_until = end_of_lease(began)
            self._renew_hands(held)
            if words[run_id] == "CANCEL_REQUESTED" and held.cancel_seen_at is None:
                held.cancel_seen_at = began
                self._on_loop(held.should_look.set)

    def _renew_hands(self, held: Held) -> None:
        self._processes.renew(held.prefix, held.believed_until)
        if self._terminals is not None:
            self._terminals.renew(held.prefix, held.believed_until)

    def _ask(self, fences: dict[UUID, int]) -> dict[UUID, str]:
        if self._connection is None or self._connection.closed:
            conninfo = make_conninfo(self._conninfo, **conninfo_to_dict(_LIMITS, application_name="outlive leases"))
            self._connection = Connection.connect(conninfo, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        decision = renew(worker=self._worker, held=fences, lease_seconds=limits().lease_seconds)
        query = only_query(decision)
        words = result_of(decision, self._connection.execute(query.sql, query.params).fetchall())
        if (asked_at := boottime()) - clock.read_at > ASK_EVERY_SECONDS:
            clock.learn(self._connection.execute(ASK).fetchall()[0]["now"], asked_at=asked_at)
        return words

    def _tell_lost(self, held: Held) -> None:
        """Kill from this thread, because the loop may be what hangs; then tell the loop."""
        self.forget(held)
        if not held.is_over:
            self._processes.kill(held.prefix)
            self._on_loop(self._lose, held)

    def _stop_without_loop(self, now: float) -> None:
        """A cancel that a blocked loop has not taken up by the stop deadline ends this process (RULES H4)."""
        for held in self.held:
            seen = held.cancel_seen_at
            if seen is None or now - seen < limits().stop_deadline_seconds or self._last_turn > seen:
                continue
            logger.error("lease.loop_ignores_cancel", extra={"run_id": str(held.run_id), "worker": self._worker})
            self.forget(held)
            self._processes.kill(held.prefix)
            self._die()

    def _on_loop(self, function: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to be told
            self._loop.call_soon_threadsafe(function, *arguments)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
