"""What a person at the terminal reads: one line per step, with its seconds."""

import contextlib
import sys
import time
from collections.abc import Iterator

NAME_COLUMNS = 28


def say(text: str = "") -> None:
    """Print a line. A terminal that went away is no reason to stop the stack."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def complain(text: str) -> None:
    """Print an error line."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print the step and its seconds once it is done; nothing when it fails, the error says it."""
    started = time.monotonic()
    yield
    say(f"  {name:<{NAME_COLUMNS}} {time.monotonic() - started:5.1f} s")
