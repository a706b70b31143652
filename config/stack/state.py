"""The state folder: where data, logs, secrets and process records of one checkout live, and who holds it."""

import fcntl
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.stack.errors import AlreadyRunning, StackError
from config.stack.identity import ProcessRecord, command_line, load_record, record_of, save_record

CHECKOUT = Path(__file__).resolve().parents[2]
SOCKET_PATH_BYTES = 100  # the kernel takes 107 (macOS 103) with the NUL
LONGEST_SOCKET_NAME = 16  # ".s.PGSQL.5432" and a little more
LONGEST_TERMINAL_NAME = 48  # 32 digits, ".sock", and the id of the process that makes it
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")


@dataclass(frozen=True)
class StateFolder:
    """Paths inside one state folder. Nothing here touches the disk but `create_folder` and the functions below."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def records(self) -> Path:
        return self.root / "processes"

    @property
    def workspaces(self) -> Path:
        return self.root / "workspaces"

    @property
    def demo(self) -> Path:
        return self.root / "demo.json"

    @property
    def client(self) -> Path:
        return self.root / "client.json"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def record(self, name: str) -> Path:
        return self.records / f"{name}.json"


def state_root(environ: Mapping[str, str]) -> Path:
    """Return OUTLIVE_STATE, else `.state` of this checkout."""
    given = environ.get("OUTLIVE_STATE")
    return Path(given).expanduser().absolute() if given else CHECKOUT / ".state"


def create_folder(root: Path) -> StateFolder:
    """Make the folder and its parts. Raises StackError with the cause when that is not possible."""
    state = StateFolder(root)
    try:
        if not root.exists():
            root.mkdir(parents=True)
            # Root's PostgreSQL may have to run as another user, who must be able to pass through.
            root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for folder in (state.logs, state.records, state.workspaces):
            folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise StackError(f"The state folder cannot be used: {error}. Set OUTLIVE_STATE to another one.") from error
    return state


def socket_folder(wanted: Path, *, longest_name: int = LONGEST_SOCKET_NAME) -> Path:
    """Return `wanted` when a socket in it has an address that all programs can take, else a short folder of ours.

    The system allows about 100 bytes, and not every client decodes a blank in a URL.
    """
    text = str(wanted)
    wanted.mkdir(exist_ok=True, parents=True, mode=0o700)
    if len(os.fsencode(text)) + longest_name <= SOCKET_PATH_BYTES and PLAIN_PATH.fullmatch(text):
        return wanted
    name = hashlib.sha256(os.fsencode(text)).hexdigest()[:12]
    short = Path("/tmp") / f"outlive-{os.geteuid()}-{name}"
    short.mkdir(exist_ok=True, mode=0o700)
    found = short.lstat()
    if short.is_symlink() or (os.geteuid() != 0 and found.st_uid != os.geteuid()):
        raise StackError(f"{short} belongs to somebody else: remove it, or set OUTLIVE_STATE to a shorter path.")
    # A temporary state folder takes it along when it goes.
    (wanted / "sockets").write_text(str(short))
    return short


def write_private(path: Path, text: str) -> None:
    """Replace the file as a whole; nobody but its owner can read it at any time."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(draft).replace(path)


def secret_key(state: StateFolder) -> str:
    """Return the key of this state folder; made at the first call."""
    path = state.root / "secret_key"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48))
    return path.read_text().strip()


def load_demo(state: StateFolder) -> dict[str, Any]:
    """Return what is known of the demo user, an empty dict when nothing is."""
    try:
        found = json.loads(state.demo.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class StateLock:
    """The right to run a stack in this folder. The kernel gives it back when the holder dies, however it dies."""

    def __init__(self, state: StateFolder) -> None:
        self._path = state.root / "lock"
        self._holder = state.root / "holder.json"
        self._file: int | None = None

    def try_take(self) -> bool:
        """Take the lock if nobody has it; then this process is on record as its holder."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            self._file = None
            return False
        save_record(self._holder, record_of("stack", os.getpid(), command_line(os.getpid())))
        return True

    def take(self) -> None:
        """Take the lock. Raises AlreadyRunning at once when another process has it."""
        if self.try_take():
            return
        holder = self.holder()
        who = f" (process {holder.pid})" if holder else ""
        raise AlreadyRunning(f"Outlive is running in this checkout already{who}. `make down` stops it.")

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> ProcessRecord | None:
        """Return the process that took the lock last, None when it is gone."""
        record = load_record(self._holder)
        return record if record and record.is_alive() else None
