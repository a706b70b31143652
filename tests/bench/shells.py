"""Row h: a shell over its socket, beside a bare PTY bridge and terminado."""

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from config.stack.ports import free_ports
from runs.shell_frames import INPUT, OUTPUT, pack, unpack
from tests.bench.bench import Bench
from tests.bench.client import Address, Refused, Subscription, subscribe, upgrade
from tests.bench.figures import Figure, median_points, points
from tests.bench.idle import proportional_kilobytes
from tests.bench.site import await_answer, running_program

SECONDS = 60.0
KEPT_BYTES = 4096
ACK_BYTES = 32 * 1024
QUIET_SECONDS = 0.3
PIECE_BYTES = 100  # of input in one message: the bench's own client sends short ones
ECHO = b"bcefghjklm"


class Term:
    """One client: the last bytes that it was shown, and how many there were."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.total = 0
        self.seen = asyncio.Event()
        self.stream: Subscription | None = None

    def show(self, data: bytes) -> None:
        self.total += len(data)
        self.kept += data
        if len(self.kept) > 16 * KEPT_BYTES:
            del self.kept[:-KEPT_BYTES]
        self.seen.set()

    async def until(self, text: bytes) -> None:
        """Wait until it was shown. Raises: TimeoutError."""
        async with asyncio.timeout(SECONDS):
            while text not in self.kept:
                self.seen.clear()
                await self.seen.wait()

    def forget(self) -> None:
        self.kept.clear()

    def type(self, data: bytes) -> None:
        """Type."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave."""
        if self.stream is not None:
            self.stream.cut()


class Ours(Term):
    """A pilot or a viewer of our socket."""

    def __init__(self) -> None:
        super().__init__()
        self.typed = self.next = self._acked = 0
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    @classmethod
    async def opened(cls, address: Address, shell: str, query: str = "role=pilot") -> "Ours":
        """Attach to a shell; its terminal is there when this returns. Comes back where it is told to, as any client.

        Raises: Refused, TimeoutError.
        """
        async with asyncio.timeout(SECONDS):
            while True:
                term = cls()
                term.stream = await subscribe(address, upgrade(address, f"/ws/v1/shells/{shell}/?{query}"), term._take)
                frame = await term.ready
                if frame["type"] == "ready":
                    return term
                if not frame["reconnect"]:
                    raise Refused(frame["reason"])
                await asyncio.sleep(frame["retry_after"] or 0.0)  # the server says when

    def _take(self, message: bytes) -> None:
        if message[:1] == b"{":
            frame = json.loads(message)
            if frame["type"] == "ready":
                self.typed = frame["taken"]
                self.ready.set_result(frame)
            elif frame["type"] == "closing" and not self.ready.done():
                self.ready.set_result(frame)
            elif frame["type"] == "heartbeat":
                self._say({"type": "keepalive"})
            return
        channel, offset, data = unpack(message)
        if channel == OUTPUT:
            self.next = offset + len(data)
            if self.next - self._acked >= ACK_BYTES:
                self._acked = self.next
                self._say({"type": "ack", "offset": self.next})
        self.show(data)

    def _say(self, frame: dict[str, object]) -> None:
        assert self.stream is not None
        self.stream.say(json.dumps(frame).encode())

    def type(self, data: bytes) -> None:
        assert self.stream is not None
        for begin in range(0, len(data), PIECE_BYTES):
            piece = data[begin : begin + PIECE_BYTES]
            self.stream.say_bytes(pack(INPUT, self.typed, piece))
            self.typed += len(piece)


class Bare(Term):
    """A client of a bridge that sends bytes both ways."""

    @classmethod
    async def opened(cls, address: Address) -> "Bare":
        """Open a new shell."""
        term = cls()
        term.stream = await subscribe(address, upgrade(address, "/shell"), term.show)
        return term

    def type(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.say_bytes(data)


class Terminado(Term):
    """A client of terminado, which speaks JSON."""

    @classmethod
    async def opened(cls, address: Address) -> "Terminado":
        """Open a new shell."""
        term = cls()
        term.stream = await subscribe(address, upgrade(address, "/shell"), term._take)
        return term

    def _take(self, message: bytes) -> None:
        kind, *rest = json.loads(message)
        if kind == "stdout":
            self.show(rest[0].encode())

    def type(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.say(json.dumps(["stdin", data.decode()]).encode())


async def of_a_shell(bench: Bench) -> AsyncIterator[Figure]:
    """Echo, throughput, Ctrl-C in a flood, reattach, and what an idle session costs."""
    address = bench.client.address
    with running_terminado() as terminado:
        kinds: dict[str, Term] = {"ours": await Ours.opened(address, await _open(bench))}
        kinds["bare"] = await Bare.opened(bench.reference)
        kinds["terminado"] = await Terminado.opened(terminado)
        for term in kinds.values():
            term.type(b"PS1='$ '; HISTFILE=; echo re''ady\r")
            await term.until(b"ready")
        echo, flood, stop = {}, {}, {}
        for name, term in kinds.items():
            echo[name] = median_points([await _echoes(term, bench.scale.keys) for _ in range(bench.scale.repetitions)])
            rates = sorted([await _flood(term, bench.scale.lines) for _ in range(min(3, bench.scale.repetitions))])
            flood[name] = {"mb_s": round(rates[len(rates) // 2], 2)}
            stop[name] = points([await _ctrl_c(term) for _ in range(min(3, bench.scale.repetitions))])
        for term in kinds.values():
            term.close()
    for row, what, unit, found, must in (
        ("h.echo", "key -> echo of cat", "ms", echo, {"p50": 0.75, "p99": 2.0}),
        ("h.flood", f"seq 1 {bench.scale.lines}", "MB/s", flood, {"mb_s": 15.0}),
        ("h.ctrl_c", "Ctrl-C in a flood -> silence", "ms", stop, {"max": 50.0}),
    ):
        yield Figure(
            row=row, what=what, unit=unit, ours=found["ours"], must=must, baseline=found["bare"],
            baseline_is="bare PTY bridge on uvicorn: no auth, no recovery, dies with its socket",
            samples=bench.scale.keys, more_is_better=unit == "MB/s",
            more={"terminado": found["terminado"]},
        )  # fmt: skip
    yield await _reattach(bench)
    yield await _idle(bench)


async def _open(bench: Bench) -> str:
    shell = await bench.client.http.call("POST", "/api/v1/shells", {"on_disconnect": {"grace_s": 600}})
    return str(shell["id"])


async def _echoes(term: Term, keys: int) -> list[float]:
    term.type(b"cat\r")
    await term.until(b"cat\r\n")
    taken = []
    for number in range(keys):
        key = ECHO[number % 10 : number % 10 + 1]
        term.forget()
        began = time.perf_counter()
        term.type(key)
        await term.until(key)
        taken.append(time.perf_counter() - began)
        if number % 60 == 59:
            term.type(b"\r")
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.005)
    term.forget()
    term.type(b"\x03")
    await term.until(b"$ ")  # what is typed before the prompt may be flushed
    return taken


async def _flood(term: Term, lines: int) -> float:
    term.forget()
    term.total = 0
    began = time.perf_counter()
    term.type(b"seq 1 %d; echo do''ne\r" % lines)
    await term.until(b"done\r\n")
    return term.total / (time.perf_counter() - began) / 1e6


async def _ctrl_c(term: Term) -> float:
    """Give the seconds from Ctrl-C in a flood to the last byte before silence."""
    term.type(b"yes\r")
    await term.until(b"y\r\ny\r\n")
    await asyncio.sleep(1.0)
    began = last = time.perf_counter()
    term.type(b"\x03")
    known = term.total
    while time.perf_counter() - last < QUIET_SECONDS:
        await asyncio.sleep(0.002)
        if term.total != known:
            known, last = term.total, time.perf_counter()
    await asyncio.sleep(QUIET_SECONDS)
    return last - began


async def _reattach(bench: Bench) -> Figure:
    """From the first byte of the handshake to the output that was missed."""
    address, taken = bench.client.address, []
    shell = await _open(bench)
    term = await Ours.opened(address, shell)
    is_exact = True
    for number in range(bench.scale.reattaches):
        term.type(b"echo a''%d\r" % number)
        await term.until(b"a%d\r\n" % number)
        frame = term.ready.result()
        offset, had, typed = term.next, frame["generation"], term.typed
        term.close()
        term_again_began = time.perf_counter()
        term = await Ours.opened(address, shell, f"role=pilot&from={offset - 4}&had={had}")
        async with asyncio.timeout(SECONDS):
            while not term.total:
                term.seen.clear()
                await term.seen.wait()
        taken.append(time.perf_counter() - term_again_began)
        is_exact = is_exact and term.typed == typed
    term.close()
    return Figure(
        row="h.reattach", what="reattach -> the output that was missed", unit="ms", ours=points(taken),
        must={"p50": 50.0}, samples=len(taken), is_exact=is_exact,
    )  # fmt: skip


async def _idle(bench: Bench) -> Figure:
    """Memory of the web process for each idle pilot; the terminals themselves stand beside it."""
    count = bench.scale.idle_shells
    address, pid = bench.client.address, bench.site.web_pid
    shells = [await _open(bench) for _ in range(count)]
    warm = await Ours.opened(address, shells[0], "role=viewer")
    before = proportional_kilobytes(pid)
    terms = [await Ours.opened(address, shell) for shell in shells]
    await asyncio.sleep(0.5)
    each = (proportional_kilobytes(pid) - before) / count
    for term in [warm, *terms]:
        term.close()
    for shell in shells:
        await bench.client.http.call("POST", f"/api/v1/shells/{shell}/terminate", {})
    return Figure(
        row="h.idle", what=f"memory of the web process for each of {count} idle sessions", unit="KB",
        ours={"each": round(each, 1)}, must={}, samples=count,
    )  # fmt: skip


@contextlib.contextmanager
def running_terminado() -> Iterator[Address]:
    """Run terminado for the length of a block."""
    port = free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="outlive-bench-terminado-") as name:
        argv = ("-m", "tests.bench.terminado_server", str(port))
        with running_program("terminado", argv, Path(name), os.environ) as process:
            await_answer(f"http://127.0.0.1:{port}/", process, Path(name) / "terminado.log")
            yield Address(f"http://127.0.0.1:{port}", {})
