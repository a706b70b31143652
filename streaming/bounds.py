"""A bound on request bodies, kept while they arrive: Daphne hands a request on only once all of it is on the disk.

Measured without it: 200 MB are written to two temporary files before the API can say 413.
"""

import asyncio
import json
from functools import partial
from typing import Any

from daphne.http_protocol import WebRequest

LINGER_SECONDS = 1.0  # time for a client that still sends to read the answer; then the connection is cut
_BODY = json.dumps(
    {
        "error": {
            "type": "invalid_request_error", "code": "too_large", "param": "Content-Length", "doc_url": None,
            "message": "The body is larger than this server takes. Nothing was stored.", "request_id": "",
            "retryable": False, "details": {},
        }
    },
    separators=(",", ":"),
).encode()  # fmt: skip
REFUSAL = (
    b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """Daphne's request that answers 413 as soon as its body is, or will be, larger than `server.max_body_bytes`."""

    is_refused = False

    def gotLength(self, length: int | None) -> None:
        """Judge what the client announces, before any of it is taken."""
        if length is not None and length > self.server.max_body_bytes:
            self._refuse()
            length = 0  # no temporary file for what is thrown away
        super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:
        """Count what comes: a chunked body announces nothing."""
        if not self.is_refused and self.content.tell() + len(data) > self.server.max_body_bytes:
            self._refuse()
        if not self.is_refused:
            super().handleContentChunk(data)

    def process(self) -> None:
        """Hand on a body that is whole; one that was refused has had its answer."""
        if not self.is_refused:
            super().process()

    def _refuse(self) -> None:
        self.is_refused = True
        transport = self.channel.transport
        transport.write(REFUSAL)
        # Closing at once would reset a client that is still sending, before it has read the answer.
        asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.loseConnection)


def bound_bodies(server: Any) -> None:
    """Let every new connection of a listening server make bounded requests."""
    build = server.http_factory.buildProtocol

    def build_bounded(address: Any) -> Any:
        protocol = build(address)
        # Django reads forms. Twisted would read each of them too, and answers one that it cannot read without a word.
        protocol.requestFactory = partial(BoundedRequest, parsePOSTFormSubmission=False)
        return protocol

    server.http_factory.buildProtocol = build_bounded
