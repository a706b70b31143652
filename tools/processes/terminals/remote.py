"""Both ends of what ssh.py is told and tells: the place goes in by a file, the verdict comes out by one. stdlib only.

Neither stands in arguments or environment, which others on this machine may see. Both lie beside the terminal's socket.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.processes.terminals.host import socket_of

PROGRAM = Path(__file__).with_name("ssh.py")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the other side. error, code: why it was not opened, was lost, or is not proven gone."""

    is_gone: bool
    error: str
    code: str


def ssh_argv(folder: str, key: str, place: Mapping[str, Any]) -> list[str]:
    """Write down where to go, and return the program that goes there. place: ssh.Place without mark and verdict."""
    spec = _beside(folder, key, ".ssh")
    wanted = {**place, "mark": key, "verdict": str(_beside(folder, key, ".verdict"))}
    fd = os.open(spec, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(wanted, file)
    return [sys.executable, "-I", str(PROGRAM), str(spec)]


def read_verdict(folder: str, key: str) -> Verdict | None:
    """Return what the program said at its end; None: it was killed before, and nothing is known."""
    try:
        said = json.loads(_beside(folder, key, ".verdict").read_text(encoding="utf-8"))
        return Verdict(said["gone"] is True, str(said.get("error", "")), str(said.get("code", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_remote(folder: str, key: str) -> None:
    """Remove both files, where there are any."""
    for ending in (".ssh", ".verdict"):
        with contextlib.suppress(OSError):
            _beside(folder, key, ending).unlink()


def _beside(folder: str, key: str, ending: str) -> Path:
    return Path(socket_of(folder, key)).with_suffix(ending)
