"""Commands that run once while the stack starts, such as the migrations: interruptible, output kept."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from config.stack.bell import Bell
from config.stack.errors import StackError, StopRequested
from config.stack.logs import last_line
from config.stack.runmodes import SELF
from config.stack.state import StateFolder

CHORE_SECONDS = 600.0
STOP_SECONDS = 5.0


def run_chore(
    name: str, argv: list[str], *, state: StateFolder, bell: Bell, environ: Mapping[str, str], cwd: Path
) -> str:
    """Run the command to its end and return what it wrote to its standard output.

    Raises StackError with its last line when it fails, StopRequested when a signal came (the command is ended first).
    """
    answer = state.root / f".{name}.out"
    log = state.log(name)
    bell.check()
    with answer.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            SELF.wrap(argv, death_signal=9), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            cwd=cwd, env=dict(environ), start_new_session=True,
        )  # fmt: skip
    try:
        in_time = bell.wait_until(lambda: process.poll() is not None, CHORE_SECONDS)
    except StopRequested:
        _end(process)
        raise
    if not in_time:
        _end(process)
        raise StackError(f"{name} did not end within {CHORE_SECONDS:.0f} s. See {log}")
    text = answer.read_text(errors="replace")
    answer.unlink()
    if process.returncode:
        raise StackError(f"{name} failed: {last_line(log) or text.strip()[-200:]}. See {log}")
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
