"""A terminal's output on its way to one client: by offset, at the client's pace, a screen where bytes are gone."""

import asyncio
from typing import Any

from runs.shell_frames import OUTPUT, SCREEN
from streaming.shells.door import Door
from streaming.shells.protocol import UNPAINTED_BYTES
from tools.processes.terminals.screen import NoScreen, Screen, exact_screen


class Output:
    """`next` is the offset of the next byte for the client; None until something told where to begin."""

    def __init__(self, door: Door, folder: str, key: str, begin: int | None) -> None:
        self._door, self._folder, self._key = door, folder, key
        self.next = begin
        self._painted = begin or 0
        self._room = asyncio.Event()
        self._screen: Screen | None = None

    async def hello(self) -> dict[str, Any]:
        """Say from where on the terminal is to send: the client's offset, or what follows on its screen."""
        if self.next is None:
            self._screen = await self._ask_for_screen()
            if self._screen is not None:
                self.next = self._screen.offset
        return {} if self.next is None else {"from": self.next}

    async def correct(self, end: int) -> None:
        """Take no offset for granted that the terminal, which stands at `end`, has not reached: nothing would come."""
        if self.next is not None and self.next > end:
            self.next = None
            await self.hello()

    async def begin(self) -> None:
        """Send the screen that was asked for before, if there is one."""
        screen, self._screen = self._screen, None
        if screen is not None:
            await self._paint(screen)

    async def send(self, offset: int, data: bytes) -> None:
        """Send output, once the client has painted enough of what came before."""
        if self.next is None:
            self._restart(offset)
        assert self.next is not None
        known = self.next - offset
        if known >= len(data):
            return  # the screen shows it
        while self.next - self._painted >= UNPAINTED_BYTES:
            self._room.clear()
            await self._room.wait()
        data = data[known:] if known > 0 else data
        await self._door.send_bytes(OUTPUT, self.next, data)
        self.next += len(data)

    async def skip(self, begin: int, end: int) -> None:
        """Say what is not kept any more, and show where the terminal stands instead."""
        if self.next is not None and self.next >= end:
            return
        await self._door.say("skipped", **{"from": begin, "to": end})
        self._restart(end)
        screen = await self._ask_for_screen()
        if screen is not None and screen.offset >= end:
            await self._paint(screen)

    def painted(self, offset: int) -> None:
        """The client has painted everything up to here."""
        if self.next is not None:
            self._painted = min(max(self._painted, offset), self.next)
            self._room.set()

    async def _paint(self, screen: Screen) -> None:
        await self._door.say("screen", offset=screen.offset, rows=screen.rows, cols=screen.cols, exact=screen.is_exact)
        await self._door.send_bytes(SCREEN, screen.offset, screen.data)
        self._restart(screen.offset)

    def _restart(self, offset: int) -> None:
        self.next = self._painted = offset

    async def _ask_for_screen(self) -> Screen | None:
        try:
            return await exact_screen(self._folder, self._key)
        except NoScreen:
            return None
