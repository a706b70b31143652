"""What stands between a client and a server of ours in a test: a port that is listened on in a thread of its own."""

import asyncio
import threading


class Listener:
    """Carries each connection to a port by `_carry`, until it is closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._stop, self._ready = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def start(self) -> None:
        """Return once it listens."""
        self._thread.start()
        assert self._ready.wait(60)

    def close(self) -> None:
        """Cut everybody, and return once it is over."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._loop.close()

    async def _serve(self) -> None:
        open_now: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._carry(reader, writer))
            open_now.add(task)
            task.add_done_callback(open_now.discard)

        async with await asyncio.start_server(accept, "127.0.0.1", self.port):
            self._ready.set()
            await self._stop.wait()
            for task in open_now:
                task.cancel()
            await asyncio.gather(*open_now, return_exceptions=True)

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        raise NotImplementedError
