"""The connection to a terminal, by itself."""

import asyncio
import socket

import uvloop

from tools.processes.terminals.link import Terminal


def test_what_is_said_to_a_terminal_that_has_just_gone_is_no_error() -> None:
    """The reader has not heard of the end yet. In uvloop, as in the web server, the second write was a RuntimeError."""

    async def say_on() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        terminal = Terminal(reader, writer)
        theirs.close()
        while not writer.is_closing():
            terminal.resize(24, 80)
            await asyncio.sleep(0)
        terminal.resize(24, 80)
        terminal.type(0, b"x")
        await asyncio.sleep(0)
        terminal.resize(24, 80)

    uvloop.run(say_on())
