"""Ports are checked before anything starts, and free ones are different ones."""

import socket

import pytest

from config.stack.errors import PortTaken, UsageProblem
from config.stack.ports import free_ports, is_free, parse_port, require_free


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "http", "8000.0", "1e3"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="PORT must be a number"):
        parse_port(text)


def test_a_taken_port_is_named_with_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(PortTaken, match=f"Port {port} is taken .* make up PORT=") as caught:
            require_free(port)
    assert caught.value.exit_code == 2
    require_free(port)


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(20))) == 20
