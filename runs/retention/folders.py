"""The folders of runs that ended long ago: their workspaces, and the homes of their local shells, on this machine.

A folder is moved aside under the lock of its run's row, so no new attempt begins in one that is being deleted. One of a
run that the database does not know may be another installation's, and stays.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from itertools import batched
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import transaction

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions import keeping
from runs.unprivileged import is_ours

logger = logging.getLogger(__name__)

GONE = ".gone"  # what was moved aside, in the same folder and so on the same disk
QUIET_SECONDS = 86_400.0  # since something was put in: a compensation works in the workspace of a run that has ended
BATCH = 500
_RUN = re.compile(r"[0-9a-f]{32}")
DUE = f"""
select r.id from runs_run r where r.id = any(%(runs)s) and {keeping.MAY_CLEAR}"""


def old_folders() -> Iterator[Path]:
    """Find the folders that may be deleted, those first whose deletion was begun."""
    for place in _places():
        yield from _below(place / GONE)
        quiet = (folder for folder in _below(place) if _RUN.fullmatch(folder.name) and _is_quiet(folder))
        for folders in batched(quiet, BATCH):
            asked = {"runs": [UUID(folder.name) for folder in folders], "days": limits().folders_days}
            due = {row["id"].hex for row in fetch(DUE, asked)}
            yield from (folder for folder in folders if folder.name in due)


def clear(folder: Path) -> bool:
    """Delete a folder with all that is in it. False: its run is wanted again, or another supervisor was first."""
    aside = folder if folder.parent.name == GONE else _set_aside(folder)
    if aside is None:
        return False
    try:
        delete_tree(aside)
    except FileNotFoundError:
        return False  # another supervisor deletes it too, and goes on
    logger.info("folder.deleted", extra={"folder": folder.name})
    return True


def delete_tree(folder: Path) -> None:
    """Delete a folder, also where a program took its owner's rights to it away. Raises: OSError."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        folder.chmod(0o700)
        for parent, names, _ in os.walk(folder):
            for inner in (Path(parent, name) for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(folder)


def _set_aside(folder: Path) -> Path | None:
    aside = folder.parent / GONE / folder.name
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    with transaction.atomic():
        if not decide(keeping.lock_cleared(run_id=UUID(folder.name), days=limits().folders_days)):
            return None
        try:
            folder.rename(aside)
        except OSError as error:  # another supervisor's, or it holds what is being deleted under this name
            logger.warning("folder.not_moved", extra={"folder": folder.name, "error": repr(error)})
            return None
    return aside


def _places() -> list[Path]:
    homes = Path(settings.SHELL_HOMES)
    return [Path(settings.WORKSPACES), *([homes] if homes.is_dir() and is_ours(homes) else [])]


def _below(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as found:
            return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _is_quiet(folder: Path) -> bool:
    try:
        return folder.lstat().st_mtime < time.time() - QUIET_SECONDS
    except FileNotFoundError:
        return False
