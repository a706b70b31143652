"""What recorded shells printed: files beside the workspaces, for those who may watch them, deleted after some days."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from django.conf import settings

from runs.access import Actor
from runs.conf import limits
from runs.errors import NotFound
from runs.ids import text_id
from runs.models import Shell
from runs.shells import get_shell

logger = logging.getLogger(__name__)
ENDING = ".cast"


def recording_path(shell_id: UUID) -> Path:
    """Return where a shell's recording is, or was, or would be."""
    return Path(settings.RECORDINGS) / f"{text_id('shell', shell_id)}{ENDING}"


def find_recording(*, actor: Actor, shell_id: UUID) -> Path:
    """Return the recording of a shell that the actor may watch. Raises: NotFound, also where it was deleted by age."""
    shell: Shell = get_shell(actor, shell_id)
    path = recording_path(shell.pk)
    if not shell.is_recorded or not path.is_file():
        raise NotFound("recording")
    return path


def old_recordings() -> Iterator[Path]:
    """Return those that nothing was written to for the days that recordings are kept."""
    oldest = time.time() - limits().recordings_days * 86_400
    for path in Path(settings.RECORDINGS).glob(f"*{ENDING}"):
        try:
            if path.stat().st_mtime < oldest:
                yield path
        except FileNotFoundError:
            continue  # another supervisor was first


def forget_recording(path: Path) -> bool:
    """Delete one. False: it was gone before."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    logger.info("recording.deleted", extra={"file": path.name})
    return True
