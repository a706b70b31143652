"""The target's HTTP parser against clients that misbehave."""

import json
import socket

from tests.tools.target.conftest import Target


def exchange(target: Target, sent: bytes) -> bytes:
    """Send raw bytes, then read until the target closes."""
    port = target.http.base_url.port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while part := client.recv(65536):
            received += part
        return received


def test_garbage_is_answered_with_400(target: Target) -> None:
    assert exchange(target, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_body_over_the_limit_is_answered_with_413(target: Target) -> None:
    head = b"POST /invoices HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 1100000\r\n\r\n"
    assert exchange(target, head + b"x" * 1_100_000).startswith(b"HTTP/1.1 413")


def test_body_that_ends_early_has_no_effect(target: Target) -> None:
    body = json.dumps({"customer": "A", "amount_cents": 1}).encode()
    head = b"POST /invoices HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: %d\r\n\r\n" % (len(body) + 1)
    exchange(target, head + body)
    assert target.count("k") == 0


def test_two_requests_on_one_connection_are_answered_in_order(target: Target) -> None:
    one = b"GET /operations/a HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = exchange(target, one + one.replace(b"/a ", b"/b "))
    assert answer.index(b'"key": "a"') < answer.index(b'"key": "b"')
