"""Opens files of a run's workspace, and nothing outside it, whatever the path says and whoever changes it meanwhile.

Each part of the path is opened below the one before it (`dir_fd`) and never through a symbolic link, so there is no
moment between a check and a use. Symbolic links are refused, also those that point inside, and so is a second name of
a file that is not its owner's. What is made is given to the workspace's owner, who need not be us.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from tools.errors import ToolError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_PART, _MOST_PARTS = 255, 32


class PathRefused(ToolError):
    """The path leads out of the workspace, through a link, or to something that is no plain file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path!r} {reason}", code="path_refused")
        self.path = path


def split_path(path: str) -> list[str]:
    """Return the parts of a relative path. Raises PathRefused for anything that could leave the workspace."""
    if path.startswith("/") or "\0" in path or "\\" in path:
        raise PathRefused(path, "must be relative, with / between its parts")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise PathRefused(path, "names no file")
    if ".." in parts:
        raise PathRefused(path, "leads upwards")
    if len(parts) > _MOST_PARTS or any(len(part.encode()) > _LONGEST_PART for part in parts):
        raise PathRefused(path, "is too long")
    return parts


def read_limited(workspace: Path, path: str, limit_bytes: int) -> tuple[bytes, int]:
    """Return the first bytes of a file, and its whole size. Raises PathRefused; ToolError when it is not there."""
    *folders, name = split_path(path)
    with _folder(workspace, folders, path, create=False) as folder, _told_apart(path):
        # O_NONBLOCK: a FIFO would hold us up until somebody writes.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise PathRefused(path, "is no plain file")
            if status.st_nlink > 1 and status.st_uid != os.stat(workspace).st_uid:
                raise PathRefused(path, "is another name of somebody else's file")
            return file.read(limit_bytes), status.st_size


def write_whole(workspace: Path, path: str, content: bytes) -> None:
    """Make `content` the file at `path`, whole or not at all; missing folders are made.

    A file that is there is replaced, not written into: a link or a hard link at its place stays untouched outside.
    Raises: PathRefused; ToolError for a full disk and the like.
    """
    *folders, name = split_path(path)
    with _folder(workspace, folders, path, create=True) as folder, _told_apart(path):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise PathRefused(path, "is there and no plain file")
        draft = f".{secrets.token_hex(8)}.draft"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                _give(fd, workspace)
                file.write(content)
                file.flush()
                os.fsync(fd)
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise


@contextlib.contextmanager
def _folder(workspace: Path, folders: list[str], path: str, *, create: bool) -> Iterator[int]:
    """Walk down from the workspace and yield the last folder's descriptor."""
    with contextlib.ExitStack() as opened, _told_apart(path):
        fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        for folder in folders:
            is_new = create and _make(folder, fd)
            fd = os.open(folder, _FOLDER, dir_fd=fd)
            opened.callback(os.close, fd)
            if is_new:
                _give(fd, workspace)
        yield fd


def _make(folder: str, parent: int) -> bool:
    try:
        os.mkdir(folder, 0o755, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _give(fd: int, workspace: Path) -> None:
    """Give what we have made to whoever the workspace belongs to. Only root can; else it is ours anyway."""
    if os.geteuid() == 0:
        owner = os.stat(workspace)
        os.fchown(fd, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def _told_apart(path: str) -> Iterator[None]:
    """Turn the system's errors into what an agent can act on."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"{path!r} does not exist.", code="file_not_found") from None
    except OSError as error:
        # ELOOP, or ENOTDIR with O_DIRECTORY: a link stood there. ENXIO: a FIFO or socket.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR):
            raise PathRefused(path, "goes through a link or through something that is no folder") from None
        raise ToolError(f"{path!r}: {os.strerror(error.errno or 0)}", code="file_error") from error
