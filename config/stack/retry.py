"""Run a command that needs the network up to three times. Standard library only: nothing is installed yet."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

TRIES = 3
PAUSE_SECONDS = 5.0


def run_with_retries(
    argv: list[str],
    *,
    what: str,
    extra_environ: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Run the command until it succeeds, at most three times with a longer pause each. Returns whether it did."""
    environ = {**os.environ, **(extra_environ or {})}
    for attempt in range(1, TRIES + 1):
        try:
            code = subprocess.run(argv, stdin=subprocess.DEVNULL, env=environ, check=False).returncode
        except OSError as error:
            print(f"outlive: {what}: {error}", file=sys.stderr)
            return False
        if code == 0:
            return True
        if attempt < TRIES:
            pause = PAUSE_SECONDS * attempt
            print(f"outlive: {what} failed ({attempt} of {TRIES}), again in {pause:.0f} s", file=sys.stderr)
            sleep(pause)
    print(f"outlive: {what} failed {TRIES} times: is the network there?", file=sys.stderr)
    return False
