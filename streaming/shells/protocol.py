"""What a client of a shell's socket may say, as pure functions. docs/PROTOCOL.md section 12 is the normative text."""

import json
from dataclasses import dataclass
from typing import Any

from runs.shell_frames import INPUT, NoShellFrame, unpack
from streaming.protocol import MAX_SEQ, BadFrame

UNPAINTED_BYTES = 256 * 1024  # of output that the client has not acknowledged; what comes after waits
UNTAKEN_BYTES = 1 << 20  # of input beyond what the terminal has taken; a client that sends more is closed
MOST_LINES = 1000  # rows, and columns


@dataclass(frozen=True, slots=True)
class Typed:
    """Input that begins at an offset."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Painted:
    """The client has painted the output up to this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Resized:
    """The pilot's window has another size."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class TakeControl:
    """The client wants to be the pilot, whoever is it now."""


@dataclass(frozen=True, slots=True)
class ReleaseControl:
    """The pilot wants to be a viewer."""


@dataclass(frozen=True, slots=True)
class HandBack:
    """Who has taken over an agent's shell gives it back to the agent."""


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """The client is there."""


Said = Typed | Painted | Resized | TakeControl | ReleaseControl | HandBack | SignOfLife
_PLAIN: dict[str, Said] = {
    "take_control": TakeControl(), "release_control": ReleaseControl(), "hand_back": HandBack(),
    "keepalive": SignOfLife(),
}  # fmt: skip


def read_binary(frame: bytes) -> Typed:
    """Read a binary frame of a client. Raises: BadFrame."""
    try:
        channel, offset, data = unpack(frame)
    except NoShellFrame as error:
        raise BadFrame(str(error)) from error
    if channel != INPUT:
        raise BadFrame("a channel that clients do not write")
    return Typed(offset, data)


def read_text(text: str) -> Said:
    """Read what a client says. Unknown fields are ignored. Raises: BadFrame."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame("not JSON") from error
    if not isinstance(frame, dict) or not isinstance(kind := frame.get("type"), str):
        raise BadFrame("no frame of ours")
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "ack":
        return Painted(_number(frame, "offset", 0, MAX_SEQ))
    if kind == "resize":
        return Resized(_number(frame, "rows", 1, MOST_LINES), _number(frame, "cols", 1, MOST_LINES))
    raise BadFrame("nothing that a client says")


def _number(frame: dict[str, Any], name: str, least: int, most: int) -> int:
    value = frame.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadFrame(f"{name} is no number between {least} and {most}")
    return value
