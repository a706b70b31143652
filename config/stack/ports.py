"""Ports: is the wanted one free, and which ones are."""

import contextlib
import secrets
import socket

from config.stack.errors import PortTaken, UsageProblem

LOOPBACK = "127.0.0.1"
UNASKED = range(20_000, 32_768)  # Linux gives out 32,768 and above


def parse_port(text: str) -> int:
    """Read a port number. Raises UsageProblem unless it is a whole number from 1 to 65535."""
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise UsageProblem(f"PORT must be a number from 1 to 65535, not {text!r}.")
    return port


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether a server could listen on the port now. Somebody else may take it a moment later."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: a port whose old connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Return when the port is free. Raises PortTaken with a free neighbour in its message."""
    if is_free(port):
        return
    other = next((near for near in range(port + 1, min(port + 50, 65536)) if is_free(near)), None)
    hint = f"Stop that program, or use another port: make up PORT={other}" if other else "Stop that program."
    raise PortTaken(f"Port {port} is taken by another program. {hint}")


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports. All are held until the last is found, so none comes twice.

    Below those that the kernel gives to outgoing connections: one of these would now and then be taken before its use.
    """
    with contextlib.ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            port = secrets.choice(UNASKED)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                found.append(port)
        return found
