"""Where a shell of somebody without rights begins: reachable, theirs, and with nobody else's folder opened for it."""

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command

from runs.unprivileged import command_user, home_of, make_workspace, shell_user, workspaces
from tools.errors import ToolError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
NOBODY = pwd.getpwnam("nobody")
USER = (NOBODY.pw_uid, NOBODY.pw_gid)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody passes through."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def a_workspace(above: Path) -> Path:
    workspace = above / "workspaces" / "run"
    workspace.mkdir(mode=0o755, parents=True)  # others could read it
    workspace.parent.chmod(0o700)
    return workspace


def is_usable(home: Path) -> bool:
    script = f"cd '{home}' && echo word >.profile && grep -q word '{home}/.profile'"
    done = subprocess.run(["/bin/sh", "-c", script], user=NOBODY.pw_uid, group=NOBODY.pw_gid, cwd="/", check=False)
    return done.returncode == 0


def test_a_workspace_that_can_be_reached_is_the_home(open_folder: Path) -> None:
    workspace = a_workspace(open_folder)
    assert not is_usable(workspace)
    assert home_of(workspace, USER) == workspace
    assert is_usable(workspace)
    assert stat.S_IMODE(workspace.stat().st_mode) == 0o700


def test_behind_a_closed_folder_it_is_elsewhere_and_the_folder_stays_closed(
    open_folder: Path, settings: LazySettings
) -> None:
    settings.SHELL_HOMES = open_folder / "homes"
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    workspace = a_workspace(closed)
    for _ in range(2):  # also the second time
        home = home_of(workspace, USER)
        assert home == open_folder / "homes" / "run"
        assert is_usable(home)
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert stat.S_IMODE(workspace.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["theirs", "open", "a link"])
def test_a_place_that_others_can_change_is_not_used(open_folder: Path, settings: LazySettings, kind: str) -> None:
    place = settings.SHELL_HOMES = open_folder / "homes"
    if kind == "a link":
        place.symlink_to(open_folder)
    else:
        place.mkdir()
        place.chmod(0o777 if kind == "open" else 0o755)
        os.chown(place, NOBODY.pw_uid if kind == "theirs" else 0, -1)
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ToolError, match="OUTLIVE_SHELL_HOMES"):
        home_of(a_workspace(closed), USER)


def test_all_workspaces_are_where_commands_reach_them(open_folder: Path, settings: LazySettings) -> None:
    settings.SHELL_HOMES = open_folder / "homes"
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    for usual, expected in ((open_folder / "usual", "usual"), (closed / "usual", "homes")):
        settings.WORKSPACES = usual
        assert workspaces(None) == usual
        assert workspaces(USER) == open_folder / expected
        assert is_usable(make_workspace(workspaces(USER) / "run", USER))
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_who_they_run_as_is_set_for_each(settings: LazySettings) -> None:
    settings.SHELL_USER, settings.COMMAND_USER = "nobody", "root"
    assert (shell_user(), command_user()) == (USER, (0, 0))
    settings.COMMAND_USER = "somebody-who-is-not-there"
    with pytest.raises(ToolError, match="OUTLIVE_COMMAND_USER"):
        command_user()


def test_workers_whose_commands_have_no_user_do_not_begin(settings: LazySettings) -> None:
    """One line that names the setting, and no parent that starts dying workers again and again."""
    settings.COMMAND_USER = "nobody-of-this-name"
    with pytest.raises(CommandError, match=r"^There is no user 'nobody-of-this-name' .*OUTLIVE_COMMAND_USER"):
        call_command("outlive_workers", "--count", "1")
