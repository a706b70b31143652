"""The proxy does to a connection what its fault says, and nothing to the others."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conformance.proxy import Fault, Kind, Proxy, faulty_proxy

SAID = b"x" * 5000


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before a server that says 5,000 bytes to each connection after hearing one, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):  # of a client that is cut
                    if connection.recv(1):
                        connection.sendall(SAID)

        thread = threading.Thread(target=serve)
        thread.start()
        with faulty_proxy(f"http://127.0.0.1:{listening.getsockname()[1]}") as running:
            yield running
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def read_through(proxy: Proxy, *, timeout: float = 30.0) -> tuple[int, str]:
    """Connect and read; return how many bytes came, and how it ended."""
    got = b""
    with closing(socket.socket()) as client:
        client.settimeout(timeout)
        try:
            client.connect(("127.0.0.1", int(proxy.base.rsplit(":", 1)[1])))
            client.sendall(b"?")
            while data := client.recv(65_536):
                got += data
        except TimeoutError:
            return len(got), "silence"
        except OSError:
            return len(got), "reset"
    assert got == SAID[: len(got)]
    return len(got), "end"


@pytest.mark.parametrize(
    ("kind", "bytes_passed", "ends"),
    [("none", 5000, ("end",)), ("drip", 5000, ("end",)), ("drop", 0, ("reset", "end")), ("hold", 1234, ("silence",)),
     ("half_open", 1234, ("silence",))],
)  # fmt: skip
def test_each_fault(proxy: Proxy, kind: Kind, bytes_passed: int, ends: tuple[str, ...]) -> None:
    proxy.faults = [Fault(kind, 1234)]
    got, end = read_through(proxy, timeout=3.0 if ends == ("silence",) else 30.0)
    assert (got, end in ends) == (bytes_passed, True)
    assert read_through(proxy) == (5000, "end")
    assert proxy.connections == 2


def test_a_cut_passes_no_byte_more(proxy: Proxy) -> None:
    proxy.faults = [Fault("cut", 1234), Fault("cut", 0)]
    assert read_through(proxy)[0] <= 1234  # a reset may take away what was not read yet
    assert proxy.passed == [1234]
    assert read_through(proxy)[0] == 0
    assert proxy.passed == [1234, 0]


def test_faults_need_plain_http() -> None:
    with pytest.raises(ValueError, match="plain HTTP"), faulty_proxy("https://127.0.0.1"):
        pass
