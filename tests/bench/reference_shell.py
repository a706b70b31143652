"""The baseline of shells: a PTY as it is on a WebSocket, bytes both ways. It dies with its socket."""

import asyncio
import os
import pty
import signal
from collections.abc import Awaitable, Callable
from typing import Any

READ_BYTES = 65_536
_PROGRAM = ("bash", "--norc", "--noprofile", "-i")


async def bridge(receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Serve one connection; what the socket does not take is not read."""
    await receive()
    await send({"type": "websocket.accept"})
    pid, master = pty.fork()
    if pid == 0:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(_PROGRAM[0], _PROGRAM)
    os.set_blocking(master, False)
    loop, is_ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(master, is_ready.set)

    async def show() -> None:
        while True:
            await is_ready.wait()
            is_ready.clear()
            parts: list[bytes] = []
            try:
                while sum(map(len, parts)) < READ_BYTES and (data := os.read(master, READ_BYTES)):
                    parts.append(data)
            except BlockingIOError:
                pass
            except OSError:
                return
            if parts:
                await send({"type": "websocket.send", "bytes": b"".join(parts)})

    showing = asyncio.ensure_future(show())
    try:
        while (message := await receive())["type"] != "websocket.disconnect":
            os.write(master, message.get("bytes") or message["text"].encode())
    finally:
        showing.cancel()
        loop.remove_reader(master)
        os.close(master)
        os.killpg(pid, signal.SIGHUP)
        os.killpg(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, pid, 0)
