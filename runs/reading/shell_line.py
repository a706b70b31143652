"""A connection to a shell that outlives its sockets: output by offset, input that is never lost or typed twice.

    async with ShellLine("https://outlive.example", token, "shell_…") as line:
        line.type(b"make\\r")
        async for item in line:
            if isinstance(item, ShellOutput):
                sys.stdout.buffer.write(item.data)

It gives ShellOutput (bytes to write to a terminal; a screen replaces what was there) and ShellFrame (what the server
says: run, pilot, size, skipped, exit …), and ends when the shell has. Leaving it ends nothing but the connection.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from runs.reading.errors import FIRST_FINAL_CODE, StreamLost, refusal, refusal_of_status
from runs.reading.items import Note
from runs.reading.machine import SILENCE_SECONDS, Reading
from runs.reading.shell import Desk
from runs.shell_frames import SCREEN, NoShellFrame, unpack

OPENING_SECONDS = 10.0
ACK_BYTES = 32 * 1024  # painted and not acknowledged yet; the server waits at 256 KB
DONE = 1000
_CUTS = (OSError, TimeoutError, InvalidHandshake, ConnectionClosed, NoShellFrame, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class ShellOutput:
    """Bytes for a terminal. is_screen: they paint all of it anew; is_replay: the program wrote them before we came."""

    offset: int
    data: bytes
    is_screen: bool = False
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class ShellFrame:
    """What the server says."""

    type: str
    data: dict[str, Any]


type ShellItem = ShellOutput | ShellFrame


class ShellLine:
    """One client of one shell. Args: role: pilot or viewer; on_cut(reason, seconds): the next connection comes then.

    Raises, while iterating: StreamRefused (the server's last word), StreamLost (no contact for give_up_seconds).
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        shell: str,
        *,
        role: str = "pilot",
        give_up_seconds: float | None = 300.0,
        on_cut: Callable[[str, float], None] = lambda reason, wait_seconds: None,
    ) -> None:
        scheme, host, path, *_ = urlsplit(base_url)
        at = f"{path.rstrip('/')}/ws/v1/shells/{quote(shell, safe='')}/"
        self._place = ("wss" if scheme == "https" else "ws", host, at)
        self._token, self._on_cut = token, on_cut
        self.desk = Desk(role)
        self._waits = Reading(None, give_up_seconds=give_up_seconds)  # how long until the next try
        self._socket: ClientConnection | None = None
        self._size: tuple[int, int] | None = None
        self._wake = asyncio.Event()
        self._hands: str | None = None  # take_control or hand_back: asked for, and not known to have come to pass
        self._is_asked = False  # on this connection
        self._later: list[str] = []  # to be said on this connection
        self._items = self._read_on()

    def type(self, data: bytes) -> bool:
        """Type. False: it has no effect, for somebody else is in control."""
        is_taken = self.desk.type(data)
        self._wake.set()
        return is_taken

    def resize(self, rows: int, cols: int) -> None:
        """Set the size, also for connections to come, as long as we are in control."""
        self._size = (rows, cols)
        self._say("resize", rows=rows, cols=cols)

    def take_control(self) -> None:
        """Become the pilot, whoever is it now. It is said again after each cut, until the server says who is."""
        self._change("take_control")

    def hand_back(self) -> None:
        """Give an agent's shell, that we have taken over, back to the agent.

        It is said again after each cut, until the server says whose the shell is: or the agent would wait for nobody.
        """
        self.desk.wanted_role = "viewer"
        self._change("hand_back")

    def release_control(self) -> None:
        """Become a viewer."""
        self.desk.wanted_role = "viewer"
        self._hands = None
        self._say("release_control")

    def _change(self, hands: str) -> None:
        self._hands, self._is_asked = hands, self.desk.role is not None
        self._say(hands)

    def _say(self, kind: str, **fields: Any) -> None:
        if self._socket is not None:
            self._later.append(json.dumps({"type": kind, **fields}))
            self._wake.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._items.aclose()

    def __aiter__(self) -> AsyncIterator[ShellItem]:
        return self._items

    async def _read_on(self) -> AsyncGenerator[ShellItem]:
        loop = asyncio.get_running_loop()
        while True:
            self._waits.begin()
            reason, asked = "the server closed the connection", 0.0
            try:
                async for item in self._one_connection():
                    yield item
                    if not isinstance(item, ShellFrame) or item.type != "closing":
                        continue
                    code, why = item.data.get("code"), str(item.data.get("reason"))
                    if code == DONE:
                        return
                    if isinstance(code, int) and code >= FIRST_FINAL_CODE:
                        raise refusal(code, why)
                    reason, asked = why, float(item.data.get("retry_after") or 0.0)
            except InvalidStatus as error:
                if 400 <= error.response.status_code < 500 and error.response.status_code != 429:
                    raise refusal_of_status(error.response.status_code, str(error)) from None
                reason = str(error)
            except _CUTS as error:
                reason = str(error) or type(error).__name__
            finally:
                self.desk.cut()
                self._socket = None
            try:
                wait_seconds = self._waits.lost(reason, now=loop.time(), retry_after=asked)
            except StreamLost as error:
                raise StreamLost(seconds=error.seconds, reason=reason, cursor=None) from None
            self._on_cut(reason, wait_seconds)
            await asyncio.sleep(wait_seconds)

    async def _one_connection(self) -> AsyncGenerator[ShellItem]:
        url = urlunsplit((*self._place, urlencode(self.desk.query), ""))
        headers = {"Authorization": f"Bearer {self._token}"}
        self._later.clear()
        async with connect(
            url, additional_headers=headers, subprotocols=[Subprotocol("app.v1")], compression=None,
            max_size=None, ping_interval=None, open_timeout=OPENING_SECONDS, close_timeout=1.0,
        ) as socket:  # fmt: skip
            self._socket = socket
            sending = asyncio.ensure_future(self._send(socket))
            try:
                painted = 0
                while True:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        message = await socket.recv()
                    if isinstance(message, str):
                        item = self._take(json.loads(message))
                        yield item
                        continue
                    output = self._paint(*unpack(message))
                    yield output
                    self.desk.next = output.offset + (0 if output.is_screen else len(output.data))
                    painted += len(output.data)
                    if painted >= ACK_BYTES or output.is_screen:
                        painted = 0
                        self._say("ack", offset=self.desk.next)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                    await sending

    def _take(self, frame: Any) -> ShellFrame:
        if not isinstance(frame, dict):
            raise ValueError("a frame that is none of ours")
        self.desk.take(frame)
        kind = str(frame.get("type"))
        if kind == "ready":
            self._waits.applied(Note({"type": "caught_up"}))  # it is there again
        self._settle_hands(kind, frame)
        if kind == "skipped":
            self.desk.next = int(frame["to"])
        is_ours = kind == "ready" or (kind == "pilot" and frame.get("mine"))
        if is_ours and self._size is not None and self.desk.role == "pilot":
            self._say("resize", rows=self._size[0], cols=self._size[1])
        if kind == "heartbeat":
            self._say("keepalive")
        self._wake.set()
        return ShellFrame(kind, frame)

    def _settle_hands(self, kind: str, frame: Mapping[str, Any]) -> None:
        if kind == "ready":
            self._is_asked = False
        if self._hands == "hand_back":
            if kind == "run" and frame.get("held_by") is None:
                self._hands = None
            elif kind == "ready":
                self.hand_back()
        elif self._hands == "take_control":
            # The first `pilot` of a connection says how it stands; one after we asked is a refusal.
            if self.desk.role == "pilot" or (kind == "pilot" and not frame.get("mine") and self._is_asked):
                self._hands = None
            elif kind == "pilot" and not frame.get("mine"):
                self.take_control()

    def _paint(self, channel: int, offset: int, data: bytes) -> ShellOutput:
        if channel == SCREEN:
            return ShellOutput(offset, data, is_screen=True)
        if self.desk.next is not None and offset != self.desk.next:
            raise ValueError(f"output from {offset} on in place of {self.desk.next}")
        return ShellOutput(offset, data, is_replay=offset < self.desk.replay_end)

    async def _send(self, socket: ClientConnection) -> None:
        """Send what is to be said, and input as far as there is room for it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._later:
                await socket.send(self._later.pop(0))
            while (frame := self.desk.to_send()) is not None:
                await socket.send(frame)
