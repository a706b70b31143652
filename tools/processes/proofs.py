"""Where a ward leaves its proof when the worker that asked is dead. stdlib only.

A killed or frozen worker cannot record that its command's tree is empty, also when it was told. The ward writes it to a
file, so that the next claimant on this host has evidence instead of an unknown outcome (RULES H7, H15).
"""

import contextlib
import hashlib
import json
import os
from typing import Any


def proof_path(folder: str, key: str) -> str:
    """Return the file of one process key; the name is a digest because keys may hold any character."""
    return os.path.join(folder, hashlib.sha256(key.encode()).hexdigest() + ".json")


def store_proof(folder: str | None, key: str, proof: dict[str, Any]) -> None:
    """Write the proof so that it is there whole or not at all. Without a folder nothing is kept."""
    if folder is None:
        return
    path = proof_path(folder, key)
    with contextlib.suppress(OSError):
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({"key": key, **proof}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


def load_proof(folder: str, key: str) -> dict[str, Any] | None:
    """Return what a ward wrote about `key`, or None."""
    try:
        with open(proof_path(folder, key), encoding="utf-8") as file:
            stored: dict[str, Any] = json.load(file)
    except OSError:
        return None
    return stored


def forget_proof(folder: str, key: str) -> None:
    """Remove the proof of `key`, before a process of that key starts again."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(proof_path(folder, key))
