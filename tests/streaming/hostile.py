"""A server that answers every request with the same bytes, whatever was asked."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

JSON = "Content-Type: application/json"
EMPTY = b'{"data":[],"has_more":true,"next_cursor":"a","is_ended":false,"stream_id":"s","head_seq":1,"status":"x"}'


def answer(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


class Hostile(socketserver.ThreadingTCPServer):
    """Answers every request with the same bytes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bytes = b""
        self.asked = threading.Semaphore(0)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Hostile)
        with suppress(OSError):
            length = 0  # of the body: a close before it is read would reset the connection, and our answer with it
            while line := self.rfile.readline().strip().lower():
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.rfile.read(length)
            self.server.asked.release()
            self.wfile.write(self.server.bytes)


@contextmanager
def a_hostile_server() -> Iterator[Hostile]:
    """Run it for the length of a block."""
    with Hostile() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)
