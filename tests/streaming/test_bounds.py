"""A body that is too large is refused while it arrives, not when all of it is on the disk."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runs.access import Actor
from tests.streaming.conftest import Site, call, running_server, token_of

LIMIT = 4 * 50_000


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("server")
    with running_server(folder, OUTLIVE_MAX_UPLOAD_BYTES="50000") as site:
        yield site


def ask(site: Site, head: str, *body: bytes) -> tuple[int, dict[str, object]]:
    """Send a request bit by bit and read its answer to the end of the connection."""
    host, port = site.base.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(f"POST /api/v1/documents HTTP/1.1\r\nHost: {host}\r\n{head}\r\n\r\n".encode())
        for part in body:
            connection.sendall(part)
        raw = b""
        while piece := connection.recv(65_536):
            raw += piece
    head_out, _, text = raw.partition(b"\r\n\r\n")
    return int(head_out.split()[1]), json.loads(text)


def test_200_megabytes_are_refused_by_their_announcement_alone(site: Site) -> None:
    status, body = ask(site, "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 209715200", b"abc")
    assert status == 413
    assert body["error"]["code"] == "too_large"  # type: ignore[index]


def test_a_chunked_body_is_refused_once_it_is_too_large(site: Site) -> None:
    chunk = b"%x\r\n%b\r\n" % (65_536, b"x" * 65_536)
    status, _body = ask(site, "Transfer-Encoding: chunked", *[chunk] * (LIMIT // 65_536 + 2))
    assert status == 413


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_b54_a_form_that_is_none_gets_an_answer_of_ours(site: Site, owner: Actor, kind: str) -> None:
    """Twisted's own 400 had no body."""
    head = f"Authorization: Bearer {token_of(owner)}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: 3"
    status, body = ask(site, head, b"abc")
    assert 400 <= status < 500
    assert body["error"]["type"] == "invalid_request_error"  # type: ignore[index]


def test_a_body_within_the_bound_and_the_next_request_are_served(site: Site, owner: Actor) -> None:
    token = token_of(owner)
    for _ in range(2):
        created = call(site, "POST", "/api/v1/runs", token, {"agent": "probe", "input": {"key": "k"}})
        assert created.status == 201
    large = call(site, "POST", "/api/v1/runs", token, {"agent": "probe", "input": {"key": "k" * LIMIT}})
    assert large.status == 413
