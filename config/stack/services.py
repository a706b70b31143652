"""PostgreSQL and Valkey for one command: started before it, stopped after it, and gone when we are killed."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from config.stack.bell import Bell
from config.stack.children import ChildSpec
from config.stack.console import step
from config.stack.embedded_postgres import postgres_spec
from config.stack.embedded_redis import redis_spec
from config.stack.errors import StackError, StopRequested
from config.stack.family import Family
from config.stack.runmodes import SELF
from config.stack.state import StateFolder, StateLock, create_folder, secret_key
from config.stack.takeover import STACK_VARIABLE, end_leftovers, stack_id

TEMPORARY_PREFIX = f"outlive-services-{os.geteuid()}-"
STALE_SECONDS = 60.0
COMMAND_STOP_SECONDS = 10.0


def start_services(
    family: Family, bell: Bell, state: StateFolder, environ: Mapping[str, str], *, fast: bool = False
) -> dict[str, str]:
    """Start what the environment does not name already. Returns the environment with both addresses.

    Raises StackError when one of them does not come up, StopRequested at a signal.
    """
    found = dict(environ) | {STACK_VARIABLE: stack_id(state), "OUTLIVE_STATE": str(state.root)}
    found.setdefault("OUTLIVE_SECRET_KEY", secret_key(state))
    if not environ.get("DATABASE_URL"):
        with step("PostgreSQL"):
            spec, found["DATABASE_URL"] = postgres_spec(state, environ, fast=fast)
            _start(family, bell, spec)
    if not environ.get("REDIS_URL"):
        with step("Redis (Valkey)"):
            spec, found["REDIS_URL"] = redis_spec(state, environ)
            _start(family, bell, spec)
    return found


def _start(family: Family, bell: Bell, spec: ChildSpec) -> None:
    bell.check()
    family.start(spec).await_ready(bell)


def run_with_services(command: list[str], environ: Mapping[str, str], *, root: Path | None, fast: bool) -> int:
    """Run the command with both services. Returns its exit code, 128 + n when signal n ended it or us.

    `root` is the state folder to keep; None means a temporary one.
    """
    remove_stale_folders(Path(tempfile.gettempdir()))
    state = create_folder(root or Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)))
    lock = StateLock(state)
    lock.take()
    end_leftovers(state)
    bell = Bell()
    family = Family(state, bell)
    try:
        return _run(command, bell, start_services(family, bell, state, environ, fast=fast))
    except StopRequested:
        return 128 + bell.stop_signals[0]
    finally:
        family.stop_all(quiet=True)
        bell.close()
        if root is None:
            remove_folder(state.root)
        lock.release()


def _run(command: list[str], bell: Bell, environ: Mapping[str, str]) -> int:
    """Run the command at our terminal. It gets Ctrl-C from there itself; a SIGTERM to us is passed on."""
    bell.check()
    try:
        process = subprocess.Popen(SELF.wrap(command, death_signal=signal.SIGKILL), env=dict(environ))
    except OSError as error:
        raise StackError(f"Cannot run {command[0]}: {error}") from error
    passed_on = 0
    kill_at = float("inf")
    while process.poll() is None:
        for number in bell.stop_signals[passed_on:]:
            if number != signal.SIGINT:
                process.send_signal(number)
                kill_at = min(kill_at, time.monotonic() + COMMAND_STOP_SECONDS)
            passed_on += 1
        if time.monotonic() > kill_at:
            process.kill()
        bell.wait(0.5)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def remove_stale_folders(parent: Path) -> None:
    """Remove temporary folders of killed predecessors: those that are old enough and that nobody holds."""
    for root in parent.glob(TEMPORARY_PREFIX + "*"):
        try:
            if time.time() - root.stat().st_mtime < STALE_SECONDS:
                continue
            handle = os.open(root / "lock", os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end_leftovers(StateFolder(root))
            remove_folder(root)
        except BlockingIOError:
            continue
        finally:
            os.close(handle)


def remove_folder(root: Path) -> None:
    """Remove a state folder with what lies outside of it: short socket folders and moved data."""
    for note in root.glob("*/location"):
        shutil.rmtree(note.read_text(), ignore_errors=True)
    for note in root.glob("*/sockets"):
        shutil.rmtree(note.read_text(), ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
