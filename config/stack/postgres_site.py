"""Where PostgreSQL's files can live and who runs it, given who we are and who owns the data."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from config.stack.errors import StackError
from config.stack.runmodes import RunMode, can_run, candidate_modes

OPEN_TO_ALL = Path("/var/tmp")
REACHABLE = 'test -w "$1" && "$2/postgres" --version >/dev/null && "$2/initdb" --version >/dev/null'


@dataclass(frozen=True)
class Site:
    """The decision: the mode, the folder of programs, and the folder that holds `data`."""

    mode: RunMode
    programs: Path
    base: Path

    @property
    def data(self) -> Path:
        return self.base / "data"


def choose_site(base: Path, programs: Path, modes: Callable[[int | None], Iterable[RunMode]] = candidate_modes) -> Site:
    """Return the first way that works here. Raises StackError with the reasons when none does."""
    base.mkdir(exist_ok=True, parents=True, mode=0o700)
    base = _moved_base(base) or base
    data = base / "data"
    owner = data.stat().st_uid if data.exists() else None
    reasons = []
    for mode in modes(owner):
        site, reason = _try_site(mode, programs, base)
        if site:
            return site
        reasons.append(f"{mode.name}: {reason}")
    raise StackError("PostgreSQL cannot run here (" + "; ".join(reasons) + "). Set DATABASE_URL to another one.")


def _try_site(mode: RunMode, programs: Path, base: Path) -> tuple[Site | None, str | None]:
    if mode.uid is None:
        reason = can_run(mode, [str(programs / "postgres"), "--version"])
        return (None, reason) if reason else (Site(mode, programs, base), None)
    _give_to(base, mode)
    if _reaches(mode, base, programs) is None:
        return Site(mode, programs, base), None
    # A folder above, such as root's home, is closed to that user: data and programs go where it may pass.
    room = _moved_base(base) or _make_room(base)
    _give_to(room, mode)
    copied = _copy_programs(programs, room)
    reason = _reaches(mode, room, copied)
    return (None, reason) if reason else (Site(mode, copied, room), None)


def _reaches(mode: RunMode, base: Path, programs: Path) -> str | None:
    return can_run(mode, ["/bin/sh", "-c", REACHABLE, "sh", str(base), str(programs)])


def _give_to(folder: Path, mode: RunMode) -> None:
    if mode.uid is not None and mode.gid is not None and folder.stat().st_uid != mode.uid:
        os.chown(folder, mode.uid, mode.gid)


def _moved_base(base: Path) -> Path | None:
    try:
        moved = Path((base / "location").read_text())
    except OSError:
        return None
    return moved if moved.is_dir() else None


def _make_room(base: Path) -> Path:
    room = Path(tempfile.mkdtemp(prefix="outlive-pg-", dir=OPEN_TO_ALL))
    (base / "location").write_text(str(room))
    return room


def _copy_programs(programs: Path, room: Path) -> Path:
    """Copy a wheel's programs with the libraries that it keeps beside its package. Returns the new bin folder."""
    # The stamp in the name makes an upgraded wheel a new copy.
    target = room / f"programs-{(programs / 'postgres').stat().st_mtime_ns}"
    package = programs.parent.parent
    libraries = package.with_name(package.name + ".libs")
    if not target.exists():
        for old in room.glob("programs-*"):
            shutil.rmtree(old)
        draft = room / "new"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(programs.parent, draft / package.name / programs.parent.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        draft.rename(target)
    return target / package.name / programs.parent.name / programs.name
