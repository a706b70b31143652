"""The Valkey of one state folder: on a unix socket, with an append-only file that outlives a restart."""

import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from config.stack.binaries import redis_program
from config.stack.children import ChildSpec
from config.stack.state import StateFolder, socket_folder

ANSWER_SECONDS = 1.0


def redis_spec(state: StateFolder, environ: Mapping[str, str]) -> tuple[ChildSpec, str]:
    """Return what to start, and the URL."""
    data = state.root / "redis"
    data.mkdir(exist_ok=True, mode=0o700)
    path = socket_folder(data) / "redis.sock"
    spec = ChildSpec(
        name="redis",
        argv=(
            str(redis_program(environ)),
            *("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"),
            *("--dir", str(data), "--save", "", "--appendonly", "yes", "--daemonize", "no"),
        ),
        marker=str(path),
        environ={"PATH": environ.get("PATH", os.defpath)},
        ready=lambda: answers(path),
        death_signal=signal.SIGTERM,  # writes its file out
    )
    return spec, f"unix://{quote(str(path))}?db=0"


def answers(path: Path) -> bool:
    """Tell whether the server on this socket has loaded its data and answers PING."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_SECONDS)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
    except OSError:
        return False
