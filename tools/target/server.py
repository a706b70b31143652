"""Serve the target's routes over HTTP/1.1 on asyncio and h11, and spoil the answers that the switches say."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable

import h11

from tools.target.routes import Reply, Request, as_json
from tools.target.switches import Switches

logger = logging.getLogger(__name__)
BODY_LIMIT_BYTES = 1 << 20
IDLE_SECONDS = 60.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST instead of FIN


class TooLarge(Exception):
    """The body is larger than BODY_LIMIT_BYTES."""


async def spoil(spoilt_by: Switches, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Wait, hang or reset as the switches say. Returns False when no answer may follow."""
    if spoilt_by.delay_seconds:
        await asyncio.sleep(spoilt_by.delay_seconds)
    if spoilt_by.fail_after_effect:
        return True
    if spoilt_by.drop_after_commit:
        reset(writer)
        return False
    if spoilt_by.never_answer:
        while await reader.read(65536):  # until the client gives up
            pass
        return False
    return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Cut the connection with RST, as a crashed host or a firewall does."""
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


class HttpConnection:
    """One connection: requests one after another, as HTTP/1.1 keep-alive has it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Callable[[Request], Reply]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Answer until the client leaves, is idle for IDLE_SECONDS, or a switch cuts the connection."""
        try:
            while (request := await self._read_request()) is not None:
                reply = self._handle(request)
                if not await spoil(reply.spoilt_by, self._reader, self._writer):
                    return
                await self._send(reply)
                if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
        except TooLarge:
            await self._send(as_json(413, {"code": "too_large", "message": "The body is too large."}))
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send(as_json(error.error_status_hint, {"code": "bad_request", "message": str(error)}))
        except (ConnectionError, TimeoutError):
            pass
        finally:
            self._writer.close()

    async def _event(self) -> h11.Event | None:
        """Return the next event; None when the client may send nothing more (h11's PAUSED)."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(IDLE_SECONDS):
                self._http.receive_data(await self._reader.read(65536))
        return event if isinstance(event, h11.Event) else None

    async def _read_request(self) -> Request | None:
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        body = b""
        while isinstance(part := await self._event(), h11.Data):
            body += part.data
            if len(body) > BODY_LIMIT_BYTES:
                raise TooLarge
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode(), head.target.decode("latin-1"), headers, body)

    async def _send(self, reply: Reply) -> None:
        headers = [*reply.headers.items(), ("content-length", str(len(reply.body))), ("cache-control", "no-store")]
        self._write(h11.Response(status_code=reply.status, headers=headers))
        self._write(h11.Data(data=reply.body))
        self._write(h11.EndOfMessage())
        await self._writer.drain()

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)


async def serve_http(handle: Callable[[Request], Reply], *, host: str, port: int) -> asyncio.Server:
    """Start to listen and return the server. Raises OSError when the port is taken."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await HttpConnection(reader, writer, handle).serve()

    return await asyncio.start_server(connected, host, port)
