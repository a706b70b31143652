"""Who commands and local shells run as where Outlive itself runs as root, and the folders that such a user works in."""

import os
import pwd
import stat
from pathlib import Path

from django.conf import settings

from tools.errors import ToolError

type User = tuple[int, int]  # uid and gid


def command_user() -> User | None:
    """Return who the commands of tools run as; None: as ourselves. Raises: ToolError when there is no such user."""
    return _user(settings.COMMAND_USER, "OUTLIVE_COMMAND_USER")


def shell_user() -> User | None:
    """Return who a local shell runs as; None: as ourselves. Raises: ToolError when there is no such user."""
    return _user(settings.SHELL_USER, "OUTLIVE_SHELL_USER")


def workspaces(user: User | None) -> Path:
    """Give the folder of all workspaces: one that this user can pass through, where commands are somebody else's.

    The rights of folders that are not ours stay as they are. Raises: ToolError when there is no such place.
    """
    usual = Path(settings.WORKSPACES)
    if user is None:
        return usual
    usual.mkdir(parents=True, exist_ok=True)
    return usual if _is_passed_through(usual, user) else _place()


def make_workspace(folder: Path, user: User | None) -> Path:
    """Make a run's workspace, which is this user's alone. Returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    if user is not None:
        folder.chmod(0o700)
        os.chown(folder, *user)
    return folder


def home_of(workspace: Path, user: User) -> Path:
    """Give that user the run's workspace, or a folder in its place where one above it does not let them through.

    Raises: ToolError when there is no such place.
    """
    home = workspace if _is_passed_through(workspace.parent, user) else _place() / workspace.name
    return make_workspace(home, user)


def is_ours(place: Path) -> bool:
    """Say whether this is a folder that nobody else writes to."""
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _user(name: str, setting: str) -> User | None:
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError as error:
        raise ToolError(f"There is no user {name!r} on this machine ({setting}).", code="not_started") from error
    return found.pw_uid, found.pw_gid


def _is_passed_through(folder: Path, user: User) -> bool:
    """Say whether this user can pass through our folder, which is opened for that (and not to be read)."""
    found = folder.resolve()
    if not all(_lets_through(above, *user) for above in found.parents):
        return False
    found.chmod(found.stat().st_mode | 0o011)
    return True


def _lets_through(folder: Path, uid: int, gid: int) -> bool:
    found = folder.stat()
    return bool(found.st_mode & (0o100 if found.st_uid == uid else 0o010 if found.st_gid == gid else 0o001))


def _place() -> Path:
    """Make the folder of such homes. It may lie where everybody writes: nobody else's is taken."""
    place = Path(settings.SHELL_HOMES)
    place.mkdir(mode=0o711, parents=True, exist_ok=True)
    if not is_ours(place):
        message = f"{place} is not a folder that only Outlive writes to (OUTLIVE_SHELL_HOMES)."
        raise ToolError(message, code="not_started")
    return place
