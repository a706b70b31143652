"""Nothing a path says, and nobody who changes it meanwhile, leads out of the workspace."""

import contextlib
import os
import pwd
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.builtin.workspace import PathRefused, read_limited, write_whole
from tools.errors import ToolError

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "path",
    ["../outside/secret", "a/../../outside/secret", "/etc/passwd", "", ".", "a\0b", "a\\b", "x" * 300, "a/" * 40],
)
def test_path_that_could_leave_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(PathRefused):
        read_limited(workspace, path, 100)
    with pytest.raises(PathRefused):
        write_whole(workspace, path, b"x")
    assert (workspace.parent / "outside/secret").read_text() == "secret"


def test_links_are_not_followed_anywhere_in_the_path(workspace: Path) -> None:
    (workspace / "folder").symlink_to(workspace.parent / "outside")
    (workspace / "file").symlink_to(workspace.parent / "outside/secret")
    for path in ("folder/secret", "file"):
        with pytest.raises(PathRefused):
            read_limited(workspace, path, 100)
    with pytest.raises(PathRefused):
        write_whole(workspace, "folder/secret", b"x")
    with pytest.raises(PathRefused):
        write_whole(workspace, "file", b"x")
    assert (workspace.parent / "outside/secret").read_text() == "secret"


def test_hard_link_is_replaced_and_its_twin_outside_stays(workspace: Path) -> None:
    os.link(workspace.parent / "outside/secret", workspace / "twin")
    write_whole(workspace, "twin", b"mine")
    assert (workspace / "twin").read_bytes() == b"mine"
    assert (workspace.parent / "outside/secret").read_text() == "secret"


def test_folder_swapped_for_a_link_meanwhile_leads_nowhere(workspace: Path) -> None:
    """A command swaps `a` between a folder and a link outside while we write `a/secret` many times."""
    (workspace / "a").mkdir()
    done = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        steps: list[Callable[[], None]] = [
            lambda: os.rename(workspace / "a", workspace / "parked"),
            lambda: os.symlink(workspace.parent / "outside", workspace / "a"),
            lambda: os.unlink(workspace / "a"),
            lambda: os.unlink(workspace / "parked/secret"),
            lambda: os.rename(workspace / "parked", workspace / "a"),
        ]
        while not done.is_set():
            for step in steps:
                with contextlib.suppress(OSError):  # the writer makes a folder "a" where it finds none
                    step()
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        written = 0
        while written < 300 or swaps <= 10:  # the test's time limit ends it where nobody swaps
            with contextlib.suppress(ToolError):
                write_whole(workspace, "a/secret", b"changed")
            written += 1
    finally:
        done.set()
        swapper.join()
    assert (workspace.parent / "outside/secret").read_text() == "secret"


def test_fifo_and_folder_are_no_files_and_do_not_hold_us_up(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "folder").mkdir()
    for path in ("fifo", "folder"):
        with pytest.raises(PathRefused):
            read_limited(workspace, path, 100)
        with pytest.raises(PathRefused):
            write_whole(workspace, path, b"x")


def test_whole_file_or_none_and_no_draft_left(workspace: Path) -> None:
    write_whole(workspace, "a/b/c.txt", b"one")
    write_whole(workspace, "a/b/c.txt", b"two")
    assert read_limited(workspace, "./a//b/c.txt", 2) == (b"tw", 3)
    assert os.listdir(workspace / "a/b") == ["c.txt"]
    with pytest.raises(ToolError, match="does not exist"):
        read_limited(workspace, "a/absent", 1)


@AS_ROOT
def test_what_is_made_belongs_to_the_owner_of_the_workspace(workspace: Path) -> None:
    os.chown(workspace, NOBODY.pw_uid, NOBODY.pw_gid)
    write_whole(workspace, "one/two/file", b"x")
    for path in ("one", "one/two", "one/two/file"):
        found = (workspace / path).stat()
        assert (found.st_uid, found.st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid), path


@AS_ROOT
def test_second_name_of_somebody_elses_file_is_not_read(workspace: Path) -> None:
    os.chown(workspace, NOBODY.pw_uid, NOBODY.pw_gid)
    os.link(workspace.parent / "outside/secret", workspace / "twin")
    with pytest.raises(PathRefused):
        read_limited(workspace, "twin", 100)
    write_whole(workspace, "own", b"mine")
    os.link(workspace / "own", workspace / "own-twin")
    assert read_limited(workspace, "own-twin", 100) == (b"mine", 4)
