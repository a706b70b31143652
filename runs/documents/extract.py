"""Have a file read in a child process, and wait for it no longer than the limit."""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runs.documents.passages import Piece

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 30.0
ERROR_CHARS = 300
TOO_LONG = "takes too long to read"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came out of a file: its passages, or the reason why there are none ("is protected by a password")."""

    passages: tuple[Piece, ...] = ()
    error: str | None = None


def extract(name: str, data: bytes, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Extracted:
    """Return the passages of a file, or why it cannot be read; never raises for what is in the file.

    Blocks the calling thread for at most `timeout_seconds`. The child sees no environment and gets no file but these.
    """
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as answer:
        source.write(data)
        source.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-s", "-B", "-m", "runs.documents.child", name],
            stdin=source,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        try:
            code = child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return Extracted(error=TOO_LONG)
        finally:
            child.kill()
            child.wait()
        answer.seek(0)
        return _understand(name, code, answer.read())


def _understand(name: str, code: int, answer: bytes) -> Extracted:
    if code == -signal.SIGXCPU:
        return Extracted(error=TOO_LONG)
    try:
        found = json.loads(answer)
        if "error" in found:
            return Extracted(error=str(found["error"])[:ERROR_CHARS])
        return Extracted(tuple(Piece(str(place), str(text)) for place, text in found["passages"]))
    except (ValueError, TypeError, KeyError):
        # Killed by a limit (CPU, memory) or a crash inside a library.
        logger.warning("document.reader_died", extra={"exit_code": code, "document_name": name})
        return Extracted(error=f"could not be read (the reader ended with {code})")
