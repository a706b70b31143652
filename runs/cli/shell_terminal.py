"""The terminal of the person who attaches: raw mode, its size, its keys, and how it is given back."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator

from runs.cli.problems import Usage

ESCAPE = b"\x1d"  # Ctrl-]
# What programs switch on and a shell that goes on without us will not switch off here: the other screen, the cursor,
# colours, pasting in brackets, the mouse, keys of applications.
GIVE_BACK = (
    b"\x1b[?1049l\x1b[?25h\x1b[0m\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>\x1b[r"
    b"\x1b[999;1H\r\n"
)
CLEAR = b"\x1b[H\x1b[2J\x1b[3J"


class Keys:
    """Tells typed bytes from what is meant for us: Ctrl-] and a letter."""

    def __init__(self, on_letter: Callable[[str], None]) -> None:
        self._on_letter = on_letter
        self._is_escaped = False

    def typed(self, data: bytes) -> bytes:
        """Give what goes to the shell."""
        passed = bytearray()
        for number in data:
            byte = bytes([number])
            if not self._is_escaped:
                self._is_escaped = byte == ESCAPE
                passed += b"" if self._is_escaped else byte
                continue
            self._is_escaped = False
            if byte in (ESCAPE, b"]"):
                passed += ESCAPE
            elif byte.isalpha():
                self._on_letter(byte.decode().lower())
        return bytes(passed)


def size() -> tuple[int, int]:
    """Return rows and columns of the terminal that we write to."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return min(max(rows, 1), 1000), min(max(columns, 1), 1000)


@contextlib.contextmanager
def raw_terminal(on_typed: Callable[[bytes], None], on_size: Callable[[], None]) -> Iterator[None]:
    """Hand every key to `on_typed` for the length of a block; b"" when there will be no more. Raises: Usage."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Usage("A shell needs a terminal on stdin and stdout. To run one command, start a run of an agent.")
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    kept = termios.tcgetattr(keyboard)

    def read() -> None:
        try:
            data = os.read(keyboard, 65536)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(keyboard)
        on_typed(data)

    tty.setraw(keyboard)
    loop.add_reader(keyboard, read)
    loop.add_signal_handler(signal.SIGWINCH, on_size)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(keyboard)
        write(GIVE_BACK)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, kept)


def write(data: bytes) -> None:
    """Write all of it; whoever reads slowly is waited for, and so is the server."""
    at, view = 0, memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while at < len(view):
            at += os.write(sys.stdout.fileno(), view[at:])
