"""Ways to run a program that refuses root (PostgreSQL): as we are, in a user namespace, as another user."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.stack.errors import StackError

LAUNCHER = Path(__file__).with_name("launch.py")
OTHER_USERS = ("postgres", "daemon")  # not nobody: commands of agents and local shells run as that
PROBE_SECONDS = 20


@dataclass(frozen=True)
class RunMode:
    """How to start a program. `uid` and `gid` are set only where it runs as another user than we are."""

    name: str
    options: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def wrap(self, argv: list[str], *, death_signal: int = 0) -> list[str]:
        """Return the command line that starts `argv` in this mode, to be run as a child of this process."""
        options = [*self.options]
        if death_signal:
            options += ["--death-signal", str(death_signal), "--parent", str(os.getpid())]
        return [sys.executable, "-I", "-S", str(LAUNCHER), *options, "--", *argv]


SELF = RunMode("self")
USER_NAMESPACE = RunMode("user namespace", ("--userns",))


def as_user(name: str, uid: int, gid: int) -> RunMode:
    return RunMode(f"user {name}", ("--uid", str(uid), "--gid", str(gid)), uid, gid)


def candidate_modes(owner: int | None) -> Iterator[RunMode]:
    """Yield the modes to try, best first.

    `owner` is the user id that owns the data already, None for fresh data. Raises StackError when an ordinary
    user meets the data of somebody else.
    """
    me = os.geteuid()
    if me != 0:
        if owner not in (None, me):
            raise StackError(f"The database files belong to user {owner}: start as that user, or set OUTLIVE_STATE.")
        yield SELF
        return
    if owner:
        yield _as_owner(owner)
        return
    yield USER_NAMESPACE
    for name in OTHER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        yield as_user(name, entry.pw_uid, entry.pw_gid)


def _as_owner(uid: int) -> RunMode:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return as_user(str(uid), uid, uid)
    return as_user(entry.pw_name, uid, entry.pw_gid)


def can_run(mode: RunMode, argv: list[str]) -> str | None:
    """Try the program once. Returns None when it works, else the reason in one line."""
    try:
        done = subprocess.run(
            mode.wrap(argv), cwd="/", capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr or done.stdout).strip().splitlines()[-1:][0] if (done.stderr or done.stdout) else "failed"
