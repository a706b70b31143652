"""Clients that say much, and clients that hang up in the middle of it: what they may cost, and that they are let go."""

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from runs.access import Actor
from runs.ids import text_id
from streaming import flow
from streaming.intake import INBOX_BYTES, MOST_PIECES, Inbox
from tests import builders
from tests.streaming.conftest import Site, token_of, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
TEXT, PING, PONG = 1, 9, 10
FEED = "/ws/v1/runs/"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: a close that resets


def frame(kind: int, payload: bytes, *, is_last: bool = True) -> bytes:
    """Write a client's frame of less than 126 bytes, masked with zeros."""
    return bytes([kind | (0x80 if is_last else 0), 0x80 | len(payload)]) + bytes(4) + payload


@contextmanager
def opened(site: Site, path: str, actor: Actor) -> Iterator[socket.socket]:
    """Open a WebSocket by hand, with a small receive buffer; its first message has come when this begins."""
    at = urlsplit(site.base)
    lines = [f"GET {path} HTTP/1.1", f"Host: {at.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    token = token_of(actor, ["runs:read", "runs:cancel", "shells:view", "shells:write"])
    with contextlib.closing(socket.socket()) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(20)
        raw.connect((at.hostname, at.port))
        raw.sendall(("\r\n".join([*lines, f"Authorization: Bearer {token}"]) + "\r\n\r\n").encode())
        said = b""
        while b'"type":"' not in said:
            said += raw.recv(512)
        yield raw


def flood(raw: socket.socket, what: bytes, megabytes: int) -> None:
    """Send it again and again without reading, until so much is sent or the server takes no more for a second."""
    raw.settimeout(1)
    sent, many = 0, what * (65_536 // len(what))
    with contextlib.suppress(OSError):  # a timeout, or the server has hung up
        while sent < megabytes << 20:
            raw.sendall(many)
            sent += len(many)


def test_pings_of_a_client_that_never_reads_cost_little_and_the_last_one_is_answered(site: Site, owner: Actor) -> None:
    """45 MB of pings were 45 MB of answers in the server's memory."""
    with opened(site, FEED, owner) as raw:
        before = site.memory_mb()
        flood(raw, frame(PING, b"a" * 125), 45)
        raw.sendall(frame(PING, b"the last"))
        assert site.memory_mb() - before < 15
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        tail, end = b"", time.monotonic() + 30
        while bytes([0x80 | PONG, 8]) + b"the last" not in tail:
            assert time.monotonic() < end
            tail = tail[-16:] + raw.recv(1 << 20)


def test_a_client_that_says_more_than_is_done_is_read_no_further(site: Site, owner: Actor) -> None:
    """Each of these frames costs a query; what was not yet done waited in memory without a bound."""
    shell = builders.a_shell(owner)
    with opened(site, f"/ws/v1/shells/{text_id('shell', shell.pk)}/", owner) as raw:
        before = site.memory_mb()
        flood(raw, frame(TEXT, b'{"type":"take_control"}'), 12)
        assert site.memory_mb() - before < 20


def test_a_message_in_pieces_without_end_is_cut(site: Site, owner: Actor) -> None:
    """24 MB of empty pieces were 31 MB of memory; the bound on a message counts its bytes alone."""
    with opened(site, FEED, owner) as raw:
        raw.settimeout(4)
        pieces = frame(TEXT, b"{", is_last=False) + frame(0, b"", is_last=False) * (2 * MOST_PIECES)
        raw.sendall(pieces)
        with contextlib.suppress(ConnectionResetError):
            while said := raw.recv(4096):
                assert said.count(b"heartbeat") <= 1  # then 15 s nothing comes, and the socket's timeout raises


def test_a_message_in_a_few_pieces_is_one_message(site: Site, owner: Actor) -> None:
    with opened(site, FEED, owner) as raw:
        raw.sendall(frame(TEXT, b'{"type":"kee', is_last=False) + frame(0, b"palive", is_last=False) + frame(0, b'"}'))
        raw.sendall(frame(PING, b"still here?"))
        said = b""
        while b"still here?" not in said:
            got = raw.recv(4096)
            assert got
            said += got
        assert b"closing" not in said


def test_a_client_that_resets_while_much_of_it_is_unread_is_let_go(site: Site, owner: Actor) -> None:
    """uvloop stopped watching at the reset, and Twisted, which had something to read, never heard of it: ten such
    clients were ten sockets for ever, and the first write to one ended the pings of all."""

    def files() -> int:
        return len(os.listdir(f"/proc/{site.process.pid}/fd"))

    before = files()
    said = len(site.log())
    for _ in range(10):
        with opened(site, FEED, owner) as raw:
            raw.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    raw.send(frame(TEXT, b'{"type":"keepalive"}') * 2000)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    # The process may have opened some of its own meanwhile: to PostgreSQL, say.
    wait_until(lambda: files() <= before + 5, 30, "the end of the connections that were reset")
    assert '"level": "error"' not in site.log()[said:]


def test_a_subprotocol_that_is_no_text_is_as_none(site: Site) -> None:
    at = urlsplit(site.base)
    with contextlib.closing(socket.create_connection((at.hostname, at.port), timeout=20)) as raw:
        raw.sendall(
            b"GET /ws/v1/runs/ HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Authorization: Bearer nobody\r\nSec-WebSocket-Protocol: \xff\xc3\r\n\r\n" % at.netloc.encode()
        )
        said = b""
        while b"not_signed_in" not in said:
            got = raw.recv(4096)
            assert got, said
            said += got
        assert said.startswith(b"HTTP/1.1 101 ")


class ASocket:
    """Counts what is asked of a transport."""

    def __init__(self) -> None:
        self.is_read = True

    def pauseProducing(self) -> None:
        assert self.is_read
        self.is_read = False

    def resumeProducing(self) -> None:
        assert not self.is_read
        self.is_read = True


async def test_a_full_inbox_refuses_nothing_and_is_read_on_once_half_of_it_is_taken() -> None:
    transport = ASocket()
    inbox = Inbox(transport)
    inbox.queue = asyncio.Queue()
    messages: list[dict[str, Any]] = [{"type": "websocket.receive", "bytes": b"x" * 65_536} for _ in range(6)]
    for message in [*messages, {"type": "websocket.disconnect"}]:
        inbox.put_nowait(message)
    assert not transport.is_read
    taken = []
    while not transport.is_read:
        taken.append(await inbox.take(inbox.queue.get))
    assert taken == messages[: len(taken)]
    assert 0 < len(taken) < 6
    assert sum(len(m["bytes"]) for m in messages[len(taken) :]) <= INBOX_BYTES // 2
    assert [await inbox.take(inbox.queue.get) for _ in range(7 - len(taken))][-1] == {"type": "websocket.disconnect"}


@pytest.mark.parametrize("chore", ["application_checker", "timeout_checker"])
def test_a_chore_that_one_connection_breaks_is_done_again(monkeypatch: pytest.MonkeyPatch, chore: str) -> None:
    """Daphne comes back to a chore at its end only: one exception, and nobody was pinged, no ended app put away."""

    class Reactor:
        later: list[tuple[float, Callable[[], None]]] = []

        def callLater(self, seconds: float, what: Callable[[], None]) -> None:
            self.later.append((seconds, what))

    def fail(_server: Any) -> None:
        raise RuntimeError("the handler is closed")

    reactor = Reactor()
    monkeypatch.setattr(flow, "reactor", reactor)
    monkeypatch.setattr(flow.Server, chore, fail)
    server = flow.FlowServer.__new__(flow.FlowServer)
    getattr(server, chore)()
    assert reactor.later == [(flow.CHORE_SECONDS, getattr(server, chore))]
