"""The clients under test, and the one that reads by hand: each a thread that remembers what it was given."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runs.reading.errors import StreamError
from streaming.client import AsyncClient, Client
from streaming.client.line import Transport
from tests.conformance.wire import read_sse, read_websocket

# Read once: cases are played in threads, and pytest writes the name of its test into the environment meanwhile.
ENVIRON = dict(os.environ)

type Frame = dict[str, Any]
Name = Literal["wire", "sync", "async", "live.js"]
HERE = Path(__file__).parent
LIVE = HERE.parents[1] / "streaming/static/streaming/live.js"
SECONDS = 120.0
LAST_STATES = {"ended": "ended", "signed_out": "NotSignedIn", "forbidden": "UnknownRun"}  # of live.js


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader is to read. view: what live.js begins with, in place of a cursor."""

    base: str
    token: str
    run_id: str
    after: str | None = None
    view: Frame | None = None
    is_tail: bool = False
    silence_seconds: float = 35.0
    pause_after: int | None = None
    is_enough: Callable[[Frame], bool] = lambda frame: False


@dataclass
class Reader:
    """What was given so far: `frames` are events, gaps and snapshots in order; `outcome` is set at the end."""

    frames: list[Frame] = field(default_factory=list)
    outcome: str | None = None
    cuts: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, frame: Frame, wanted: Wanted) -> bool:
        """Remember a frame; at the pause, wait until the case lets the reader go on. True: it may leave now."""
        with self._changed:
            self.frames.append(frame)
            self._changed.notify_all()
        if wanted.pause_after == len(self.frames):
            assert self.go_on.wait(SECONDS), "the case did not let a paused reader go on"
        return wanted.is_enough(frame)

    def end(self, outcome: str) -> None:
        """Remember how it ended."""
        with self._changed:
            self.outcome = outcome
            self._changed.notify_all()

    def cut(self, reason: str, wait_seconds: float) -> None:
        """A connection was lost."""
        self.cuts += 1

    def until(self, is_true: Callable[["Reader"], Any], what: str) -> None:
        """Wait for something. Raises: AssertionError."""
        give_up_at = time.monotonic() + SECONDS
        with self._changed:
            while not is_true(self):
                assert self.outcome is None, f"it ended as {self.outcome} before {what}"
                assert self._changed.wait(give_up_at - time.monotonic()), f"waited in vain for {what}"

    def until_end(self) -> str:
        """Wait for the end and say what it was."""
        self.until(lambda reader: reader.outcome, "the end")
        assert self.outcome is not None
        return self.outcome


type Read = Callable[[Reader, Transport, Wanted], str]


def transports_of(name: Name) -> tuple[Transport, ...]:
    """Say over which transports a client can be made to read."""
    if name == "wire":
        return ("websocket", "sse")
    return ("websocket", "pages") if name == "live.js" else ("websocket", "sse", "pages")


def is_there(name: Name) -> bool:
    """Say whether this client can be run here."""
    return name != "live.js" or shutil.which("node") is not None


def open_reader(name: Name, transport: Transport, wanted: Wanted) -> Reader:
    """Let a client read in a thread of its own."""
    reader = Reader()
    run = {"wire": _read_wire, "sync": _read_sync, "async": _read_async, "live.js": _read_live}[name]
    threading.Thread(target=_run, args=(run, reader, transport, wanted), name=f"reader-{name}", daemon=True).start()
    return reader


def _run(
    read: Callable[[Reader, Transport, Wanted], str], reader: Reader, transport: Transport, wanted: Wanted
) -> None:
    try:
        reader.end(read(reader, transport, wanted))
    except StreamError as error:
        reader.end(type(error).__name__)
    except Exception as error:
        reader.end(repr(error))


def _read_wire(reader: Reader, transport: Transport, wanted: Wanted) -> str:
    read = read_websocket if transport == "websocket" else read_sse
    for given in read(wanted.base, wanted.token, wanted.run_id, wanted.after, is_tail=wanted.is_tail):
        if isinstance(given, str):
            return given
        if reader.take(given, wanted):
            return "left"
    return "it ended without an outcome"


def _read_sync(reader: Reader, transport: Transport, wanted: Wanted) -> str:
    with Client(wanted.base, wanted.token) as client:
        following = client.follow(
            wanted.run_id, wanted.after, transport=transport, is_tail=wanted.is_tail, on_cut=reader.cut,
            silence_seconds=wanted.silence_seconds,
        )  # fmt: skip
        with following:
            for item in following:
                if reader.take(item.frame, wanted):
                    return "left"
    return "ended"


def _read_async(reader: Reader, transport: Transport, wanted: Wanted) -> str:
    async def read() -> str:
        async with AsyncClient(wanted.base, wanted.token) as client:
            following = client.follow(
                wanted.run_id, wanted.after, transport=transport, is_tail=wanted.is_tail, on_cut=reader.cut,
                silence_seconds=wanted.silence_seconds,
            )  # fmt: skip
            async with following:
                async for item in following:
                    if reader.take(item.frame, wanted):
                        return "left"
        return "ended"

    return asyncio.run(read())


def _read_live(reader: Reader, transport: Transport, wanted: Wanted) -> str:
    dead = int(wanted.silence_seconds * 1000)
    timing = {"first_delay": 20, "last_delay": 200, "poll": 50, "dead": dead, "opening": dead, "tick": min(4000, dead)}
    options = {"view": wanted.view, "timing": timing}
    path = "/blocked/" if transport == "pages" else "/ws/v1/runs/"
    node = subprocess.Popen(
        ["node", str(HERE.parent / "streaming/follow_in_node.mjs"), str(LIVE), wanted.base, wanted.run_id,
         wanted.token, "tail=1" if wanted.is_tail else ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**ENVIRON, "SOCKET_PATH": path, "OPTIONS": "-"},
    )  # fmt: skip
    try:
        assert node.stdin is not None
        assert node.stdout is not None
        node.stdin.write(json.dumps(options) + "\n")  # a view may be too long for the environment
        node.stdin.flush()
        for line in node.stdout:
            if outcome := _hear(reader, wanted, json.loads(line)):
                return outcome
        return "died"
    finally:
        node.kill()
        node.wait(60)
        for pipe in (node.stdin, node.stdout):
            assert pipe is not None
            pipe.close()


def _hear(reader: Reader, wanted: Wanted, told: dict[str, Any]) -> str | None:
    """Take what live.js has told; at its end say how it ended."""
    frames = list(told.get("frames", ()))
    if told.get("rebuilt") and not frames:
        frames = [{"type": "snapshot", "view": told["view"]}]
    enough = [reader.take(frame, wanted) for frame in frames]
    if any(enough):
        return "left"
    if told.get("state") in ("reconnecting", "restarting", "polling"):
        reader.cut("", 0.0)
    return LAST_STATES.get(told.get("state", ""))
